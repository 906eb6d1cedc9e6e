package hazard

import (
	"path"
	"slices"
	"strings"
)

// deleting and overwriting are functions of Python that do so, by their full names.
var (
	deleting = set("os.remove os.unlink os.rmdir os.removedirs os.truncate shutil.rmtree send2trash.send2trash " +
		"pathlib.Path.unlink pathlib.Path.rmdir")
	overwriting = set("os.rename os.renames os.replace shutil.move shutil.copy shutil.copy2 shutil.copyfile shutil.copytree " +
		"os.link os.symlink")
	processes = set("os.system os.popen os.startfile subprocess.run subprocess.call subprocess.check_call subprocess.check_output " +
		"subprocess.Popen subprocess.getoutput subprocess.getstatusoutput asyncio.create_subprocess_shell " +
		"asyncio.create_subprocess_exec pty.spawn commands.getoutput " +
		"os.execl os.execle os.execlp os.execlpe os.execv os.execve os.execvp os.execvpe os.posix_spawn os.posix_spawnp " +
		"os.spawnl os.spawnle os.spawnlp os.spawnlpe os.spawnv os.spawnve os.spawnvp os.spawnvpe")
	openers = set("open io.open codecs.open builtins.open gzip.open bz2.open lzma.open")
	// modules are those of which names are followed.
	modules = set("os shutil subprocess asyncio pty pathlib io codecs builtins gzip bz2 lzma importlib send2trash commands ctypes posix")
)

// methods are names of methods that delete or overwrite, whatever they are of.
var methods = map[string]string{
	"unlink": "Path.unlink", "rmdir": "Path.rmdir", "rmtree": "rmtree", "write_text": "Path.write_text", "write_bytes": "Path.write_bytes",
}

// interpreters are cell magics that run what is in them, and what that is.
var interpreters = set("bash sh dash zsh ksh script ! sx system")

// cell examines a cell.
func (e *examiner) cell(code string, depth int) {
	if depth > maxDepth {
		e.ask(tooDeep)
		return
	}
	isMap := false
	for {
		trimmed := strings.TrimLeft(code, " \t\n")
		line, body, _ := strings.Cut(trimmed, "\n")
		magic, isMagic := strings.CutPrefix(line, "%%")
		if !isMagic {
			break
		}
		name, arguments, _ := strings.Cut(strings.TrimSpace(magic), " ")
		switch {
		case interpreters[name] || strings.HasPrefix(name, "!"):
			if name == "script" && !shells[path.Base(strings.TrimSpace(arguments))] {
				e.ask("%%script")
			}
			if name == "!" || name == "sx" || name == "system" {
				body = arguments + "\n" + body
			}
			e.shell(body, depth+1)
			return
		case name == "perl" || name == "ruby" || name == "node" || name == "c" || name == "cpp":
			e.ask("%%" + name)
			return
		case name == "writefile" || name == "file":
			fields := strings.Fields(arguments)
			if len(fields) > 0 {
				e.write(word{text: fields[len(fields)-1]})
			}
			return
		case name == "html" || name == "HTML" || name == "markdown" || name == "latex" || name == "svg" || name == "js" || name == "javascript":
			return
		}
		isMap = name == "map"
		code = body // it is timed, captured, or run by a Python
	}
	p := &python{e: e, tokens: tokens(code), depth: depth, names: map[string]string{}}
	if isMap {
		p.mapped()
	}
	p.run()
}

// mapped examines the function that a map calls, which the JSON on its first line may name.
func (p *python) mapped() {
	for i := 0; p.at(i).kind != lineToken; i++ {
		if p.at(i).text == "function" && p.at(i+1).is(":") && p.at(i+2).kind == stringToken {
			p.e.cell(p.at(i+2).text+"(item)", p.depth+1)
		}
	}
}

// python examines the tokens of Python. It follows imports and simple assignments, and no values.
type python struct {
	e      *examiner
	tokens []token
	depth  int
	names  map[string]string // what names of the cell stand for: full names of modules and functions
}

func (p *python) run() {
	for i := 0; i < len(p.tokens); {
		switch t := p.tokens[i]; {
		case t.kind == shellToken:
			p.e.shell(t.text, p.depth+1)
			i++
		case t.kind == nameToken && (t.text == "import" || t.text == "from") && p.begins(i):
			i = p.imports(i)
		case t.kind == nameToken:
			i = p.reference(i)
		default:
			i++
		}
	}
}

// at is a token, or the end of a line where there is none.
func (p *python) at(i int) token {
	if i < 0 || i >= len(p.tokens) {
		return token{kind: lineToken}
	}
	return p.tokens[i]
}

// begins reports whether a statement begins at a token.
func (p *python) begins(i int) bool { return p.at(i-1).kind == lineToken || p.at(i-1).is(":") }

// dotted reads a.b.c, and returns where it ends. Longer names than any of interest are cut.
func (p *python) dotted(i int) (name string, end int) {
	name = p.at(i).text
	for end = i + 1; p.at(end).is(".") && p.at(end+1).kind == nameToken; end += 2 {
		if len(name) < 100 {
			name += "." + p.at(end+1).text
		}
	}
	return name, end
}

// imports notes what an import binds.
func (p *python) imports(i int) int {
	from := ""
	if p.at(i).text == "from" {
		for i++; p.at(i).is("."); i++ { // a relative one is not of interest
		}
		if from, i = p.dotted(i); p.at(i).text != "import" {
			return i
		}
	}
	for i++; p.at(i).kind != lineToken; {
		switch t := p.at(i); {
		case t.is("*") && modules[from]:
			p.names["*"] = strings.TrimSpace(p.names["*"] + " " + from)
			i++
		case t.kind == nameToken:
			name, end := p.dotted(i)
			bound, full := name, name
			if from != "" {
				full = from + "." + name
			} else if head, _, nested := strings.Cut(name, "."); nested {
				bound, full = head, head
			}
			if p.at(end).text == "as" && p.at(end+1).kind == nameToken {
				if bound = p.at(end + 1).text; from == "" {
					full = name
				}
				end += 2
			}
			p.bind(bound, full)
			i = end
		default:
			i++
		}
	}
	return i
}

// bind notes what a name stands for, if that is of interest.
func (p *python) bind(name, full string) {
	head, _, _ := strings.Cut(full, ".")
	if delete(p.names, name); modules[head] {
		p.names[name] = strings.Replace(full, "posix", "os", 1)
	}
}

// resolve is the full name of what a dotted name stands for.
func (p *python) resolve(name string) string {
	head, rest, nested := strings.Cut(name, ".")
	if full, known := p.names[head]; known {
		if nested {
			return full + "." + rest
		}
		return full
	}
	if !nested {
		for from := range strings.FieldsSeq(p.names["*"]) {
			if full := from + "." + name; deleting[full] || processes[full] || overwriting[full] {
				return full
			}
		}
	}
	return name
}

// reference examines a dotted name from its first token on, and returns where to go on: behind it.
func (p *python) reference(i int) int {
	name, end := p.dotted(i)
	full := p.resolve(name)
	if p.at(i - 1).is(".") { // of a value that is not known
		p.method(name[strings.LastIndexByte(name, '.')+1:], end)
		return end
	}
	if p.begins(i) && p.at(end).is("=") && !p.at(end+1).is("=") && !strings.Contains(name, ".") {
		if p.at(end+1).kind == nameToken {
			value, valueEnd := p.dotted(end + 1)
			if p.at(valueEnd).kind == lineToken {
				p.bind(name, p.resolve(value))
			}
		}
		return end
	}
	called := p.at(end).is("(")
	switch {
	case deleting[full]:
		p.e.ask(full)
	case processes[full]:
		p.process(full, end)
	case overwriting[full] && called:
		p.overwrite(full, end)
	case openers[full] && called:
		p.open(end)
	case full == "os.open" && called:
		if slices.ContainsFunc(p.arguments(end), func(t token) bool { return strings.HasPrefix(t.text, "O_") && t.text != "O_RDONLY" }) {
			p.e.ask("os.open")
		}
	case full == "getattr" && called:
		p.attribute(end)
	case (full == "__import__" || full == "importlib.import_module") && called:
		p.dynamicImport(end)
	case (full == "exec" || full == "eval") && called:
		p.runsText(full, end)
	case strings.HasPrefix(full, "ctypes.") && called:
		p.e.ask("ctypes")
	default:
		if j := strings.LastIndexByte(name, '.'); j >= 0 {
			p.method(name[j+1:], end)
		}
	}
	return end
}

// maxArguments is how many tokens of a call are looked at.
const maxArguments = 64

// arguments are the tokens of a call from its bracket on, up to a bound.
func (p *python) arguments(open int) []token {
	depth := 0
	for i := open; i < len(p.tokens) && i < open+maxArguments; i++ {
		switch t := p.tokens[i]; {
		case t.is("(") || t.is("[") || t.is("{"):
			depth++
		case t.is(")") || t.is("]") || t.is("}"):
			if depth--; depth == 0 {
				return p.tokens[open+1 : i]
			}
		}
	}
	return p.tokens[min(open+1, len(p.tokens)):min(open+maxArguments, len(p.tokens))]
}

// first is the first argument where that is one string and nothing else.
func first(arguments []token) (t token, literal bool) {
	if len(arguments) == 0 || arguments[0].kind != stringToken || arguments[0].dynamic {
		return t, false
	}
	return arguments[0], len(arguments) == 1 || arguments[1].is(",")
}

// method examines the call of a method of a value that is not known.
func (p *python) method(name string, end int) {
	if !p.at(end).is("(") {
		return
	}
	arguments := p.arguments(end)
	switch {
	case name == "write_text" || name == "write_bytes":
		if t, of := p.receiver(end); !of || p.e.isOutside(t.text) {
			p.e.ask(methods[name])
		}
	case methods[name] != "":
		p.e.ask(methods[name])
	case name == "system" || name == "getoutput":
		p.process(name, end)
	case name == "run_cell_magic" || name == "run_line_magic" || name == "run_cell":
		p.e.ask(name)
	case name == "open":
		if t, literal := first(arguments); literal && len(t.text) <= 3 && strings.ContainsAny(t.text, "wax+") {
			if t, of := p.receiver(end); !of || p.e.isOutside(t.text) {
				p.e.ask("open for writing")
			}
		}
	case name == "execute" || name == "executescript" || name == "executemany":
		if t, literal := first(arguments); literal {
			p.e.sql(t.text)
		}
	case strings.HasPrefix(name, "to_") || strings.HasPrefix(name, "save") || strings.HasPrefix(name, "write") || name == "dump" ||
		name == "extractall" || name == "imsave" || name == "imwrite":
		for _, t := range arguments {
			if t.kind == stringToken && !t.dynamic && strings.HasPrefix(t.text, "/") && p.e.isOutside(t.text) {
				p.e.ask("writing to a mount")
			}
		}
	}
}

// receiver is the literal in Path("…").method(, where open is the bracket behind the method.
func (p *python) receiver(open int) (t token, literal bool) {
	t = p.at(open - 4)
	return t, p.at(open-2).is(".") && p.at(open-3).is(")") && t.kind == stringToken && !t.dynamic && p.at(open-5).is("(")
}

// process examines what starts a process: the command where it is written there.
func (p *python) process(name string, end int) {
	if !p.at(end).is("(") {
		p.e.ask(name)
		return
	}
	arguments := p.arguments(end)
	if t, literal := first(arguments); literal && !strings.HasPrefix(name, "os.exec") && !strings.HasPrefix(name, "os.spawn") && name != "pty.spawn" {
		p.e.shell(t.text, p.depth+1)
		return
	}
	if len(arguments) == 0 || !arguments[0].is("[") {
		p.e.ask(name)
		return
	}
	var c command
	for _, t := range arguments[1:] {
		switch {
		case t.is("]"):
			s := &script{e: p.e, depth: p.depth + 1, variables: map[string]string{}}
			p.e.pipeline(s, []command{c})
			return
		case t.kind == stringToken:
			c.words = append(c.words, word{t.text, t.dynamic})
		case !t.is(","):
			c.words = append(c.words, word{text: "?", dynamic: true})
		}
	}
	p.e.ask(name)
}

// overwrite examines a copy or a rename: its target is the second argument.
func (p *python) overwrite(name string, end int) {
	arguments := p.arguments(end)
	comma := slices.IndexFunc(arguments, func(t token) bool { return t.is(",") })
	if comma >= 0 && comma+1 < len(arguments) {
		t := arguments[comma+1]
		last := comma+2 == len(arguments) || arguments[comma+2].is(",")
		if source := arguments[0]; t.kind == stringToken && !t.dynamic && last && !p.e.isOutside(t.text) &&
			(strings.HasPrefix(name, "shutil.copy") || source.kind == stringToken && !source.dynamic && !p.e.isOutside(source.text)) {
			return
		}
	}
	p.e.ask(name)
}

// open examines a call of open.
func (p *python) open(end int) {
	arguments := p.arguments(end)
	comma := slices.IndexFunc(arguments, func(t token) bool { return t.is(",") })
	if comma < 0 || comma+1 >= len(arguments) {
		return // it reads
	}
	mode := arguments[comma+1]
	if mode.kind == nameToken && comma+3 < len(arguments) && arguments[comma+2].is("=") {
		if mode.text != "mode" && !slices.ContainsFunc(arguments, func(t token) bool { return t.kind == nameToken && t.text == "mode" }) {
			return
		}
		i := slices.IndexFunc(arguments, func(t token) bool { return t.kind == nameToken && t.text == "mode" })
		if mode = (token{}); i+2 < len(arguments) {
			mode = arguments[i+2]
		}
	}
	if mode.kind == stringToken && !mode.dynamic && !strings.ContainsAny(mode.text, "wax+") {
		return
	}
	if t, literal := first(arguments); literal {
		if credentials.MatchString(t.text) || p.e.isOutside(t.text) {
			p.e.ask("open for writing")
		}
		return
	}
	p.e.ask("open for writing")
}

// attribute examines getattr(module, name).
func (p *python) attribute(end int) {
	arguments := p.arguments(end)
	if len(arguments) < 3 || arguments[0].kind != nameToken || !arguments[1].is(",") {
		return
	}
	module := p.resolve(arguments[0].text)
	if !modules[module] {
		return
	}
	if t := arguments[2]; t.kind == stringToken && !t.dynamic && (len(arguments) == 3 || arguments[3].is(",")) {
		if full := module + "." + t.text; deleting[full] || processes[full] || overwriting[full] {
			p.e.ask(full)
		}
		return
	}
	p.e.ask("getattr of " + module)
}

// dynamicImport examines __import__(name), and what is taken from the module at once.
func (p *python) dynamicImport(end int) {
	arguments := p.arguments(end)
	t, literal := first(arguments)
	if !literal {
		p.e.ask("a computed import")
		return
	}
	behind := end + len(arguments) + 2
	if !modules[t.text] {
		return
	}
	if p.at(behind).is(".") && p.at(behind+1).kind == nameToken {
		if full := t.text + "." + p.at(behind+1).text; deleting[full] || processes[full] || overwriting[full] {
			p.e.ask(full)
		}
		return
	}
	p.e.ask("__import__ of " + t.text)
}

// runsText examines exec and eval.
func (p *python) runsText(name string, end int) {
	if t, literal := first(p.arguments(end)); literal {
		p.e.cell(t.text, p.depth+1)
		return
	}
	p.e.ask(name + " of computed code")
}
