package hazard

import (
	"path"
	"regexp"
	"slices"
	"strings"
)

// leading are words of the shell's grammar after which a command comes.
var leading = set("if then else elif do while until ! { time coproc")

// wrappers run the command in their arguments. Those with a value have one argument of their own before it.
var wrappers = map[string]bool{
	"sudo": false, "doas": false, "env": false, "nohup": false, "exec": false, "command": false, "builtin": false, "setsid": false,
	"busybox": false, "nice": false, "ionice": false, "stdbuf": false, "xargs": false, "parallel": false, "unshare": false,
	"timeout": true, "chroot": true, "watch": false, "flock": true, "strace": false,
}

// valued are options of wrappers that take the next word.
var valued = set("-u -g -n -c -I -P -L -s -k -C -S -p -h --user --group --signal --chdir --max-args --max-procs")

var (
	shells    = set("sh bash dash zsh ksh ash fish")
	programs  = set("sh bash dash zsh ksh ash fish python python2 python3 perl ruby node php lua")
	fetchers  = set("curl wget fetch aria2c")
	databases = set("psql mysql mariadb sqlite3 duckdb clickhouse clickhouse-client mongosh sqlcmd cockroach")
	writers   = set("mv tee truncate dd tar unzip touch") // any of their arguments
	readers   = set("cp install rsync ln scp")            // the last one
)

func set(words string) map[string]bool {
	all := map[string]bool{}
	for w := range strings.FieldsSeq(words) {
		all[w] = true
	}
	return all
}

// invocation is a program and its arguments, behind all that only leads to it.
type invocation struct {
	name    string // without its folder
	args    []word
	command command
	piped   bool // its arguments come from its input, too
}

// maxPiped is how far behind a command what takes its output is looked for.
const maxPiped = 8

// pipeline examines commands that are piped into one another.
func (e *examiner) pipeline(s *script, list []command) {
	var run []invocation
	for _, c := range list {
		inv := s.strip(c)
		run = append(run, inv)
		e.invocation(s, inv)
		for _, to := range c.writes {
			e.write(to)
		}
	}
	for i, from := range run {
		for _, to := range run[i+1 : min(len(run), i+maxPiped)] {
			if programs[to.name] || databases[to.name] {
				e.between(s, from, to)
				break
			}
		}
	}
}

// between examines two commands of a pipeline.
func (e *examiner) between(s *script, from, to invocation) {
	switch {
	case databases[to.name]:
		e.sql(from.command.input)
		for _, w := range from.args {
			e.sql(w.text)
		}
	case fetchers[from.name]:
		e.ask("a download piped into " + to.name)
	case from.name == "base64" || from.name == "base32" || from.name == "xxd" || from.name == "openssl":
		e.ask("decoded text piped into " + to.name)
	case shells[to.name] && (from.name == "echo" || from.name == "printf"):
		e.shell(joined(from.args), s.depth+1)
	}
}

// joined makes a script of words.
func joined(words []word) string {
	all := make([]string, len(words))
	for i, w := range words {
		all[i] = w.text
	}
	return strings.Join(all, " ")
}

// strip passes over what comes before a program's name: words of the grammar, assignments, which it notes, and wrappers.
func (s *script) strip(c command) (inv invocation) {
	words := c.words
	for wrapped := false; len(words) > 0; {
		w := words[0]
		name, value, assigned := strings.Cut(w.text, "=")
		base := path.Base(w.text)
		hasValue, wraps := wrappers[base]
		switch {
		case leading[w.text], w.text == "" && !w.dynamic, wrapped && strings.HasPrefix(w.text, "-"):
			n := 1
			if wrapped && valued[w.text] {
				n = 2
			}
			words = words[min(n, len(words)):]
		case assigned && name != "" && nameLength(name) == len(name):
			if delete(s.variables, name); !w.dynamic && len(value) <= maxValue {
				s.variables[name] = value
			}
			words = words[1:]
		case base == "command" && len(words) > 1 && (words[1].text == "-v" || words[1].text == "-V"):
			return invocation{command: c}
		case wraps:
			wrapped = true
			inv.piped = inv.piped || base == "xargs" || base == "parallel"
			words = words[1:]
			for hasValue && len(words) > 0 {
				n := 1
				if hasValue = strings.HasPrefix(words[0].text, "-"); valued[words[0].text] {
					n = 2
				}
				words = words[min(n, len(words)):]
			}
		default:
			inv.name, inv.args, inv.command = base, words[1:], c
			if w.dynamic || strings.ContainsAny(base, "*?[$") && base != "[" && base != "[[" {
				s.e.ask(computed)
			}
			return inv
		}
	}
	inv.command = c
	return inv
}

// has reports whether an argument is one of these, or has one of the short flags.
func (inv invocation) has(short string, long ...string) bool {
	return slices.ContainsFunc(inv.args, func(w word) bool {
		if slices.Contains(long, w.text) {
			return true
		}
		return len(w.text) > 1 && w.text[0] == '-' && w.text[1] != '-' && strings.ContainsAny(w.text[1:], short)
	})
}

func (inv invocation) arg(i int) string {
	if i < len(inv.args) {
		return inv.args[i].text
	}
	return ""
}

// invocation examines a program that is run.
func (e *examiner) invocation(s *script, inv invocation) {
	e.arguments(inv)
	switch name := inv.name; {
	case name == "rm" || name == "unlink" || name == "rmdir" || name == "shred" || name == "srm":
		e.remove(inv)
	case name == "find" || name == "fd":
		e.find(inv)
	case strings.HasPrefix(name, "mkfs") || name == "mke2fs" || name == "wipefs" || name == "mkswap" || name == "blkdiscard":
		e.never("making a file system")
	case name == "shutdown" || name == "reboot" || name == "halt" || name == "poweroff",
		(name == "init" || name == "telinit") && (inv.arg(0) == "0" || inv.arg(0) == "6"),
		name == "systemctl" && slices.Contains([]string{"poweroff", "reboot", "halt", "kexec"}, inv.arg(0)):
		e.never("shutting down")
	case name == "killall5", name == "kill" && killsAll(inv.args):
		e.never("kill -1")
	case shells[name] || name == "eval" || name == "su":
		e.runsShell(s, inv)
	case strings.HasPrefix(name, "python"):
		e.runsPython(s, inv)
	case (name == "perl" || name == "ruby" || name == "node" || name == "php" || name == "lua") && inv.has("eE", "--eval"):
		e.ask(name + " -e")
	case name == "chmod" && slices.ContainsFunc(inv.args, func(w word) bool { return openMode.MatchString(w.text) }):
		e.ask("chmod 777")
	case name == "chown" && inv.has("R", "--recursive"):
		e.ask("chown -R")
	case name == "git":
		e.git(inv)
	case name == "crontab" && !inv.has("l"):
		e.ask("crontab")
	case databases[name]:
		e.sql(inv.command.input)
		for _, w := range inv.args {
			e.sql(w.text)
		}
	}
	if readers[inv.name] && len(inv.args) > 0 {
		e.write(inv.args[len(inv.args)-1])
	}
	if writers[inv.name] || inv.name == "sed" && inv.has("i", "--in-place") {
		for _, w := range inv.args {
			e.write(word{strings.TrimPrefix(w.text, "of="), w.dynamic})
		}
	}
}

// openMode matches modes of files that let everybody write.
var openMode = regexp.MustCompile(`^0?[0-7]?[0-7][0-7][2367]$|^[ugoa]*[oa][ugoa]*[+=][rwxXst]*w|^\+[rwxXst]*w`)

// killsAll reports whether kill is for process -1, which is all of them.
func killsAll(args []word) bool {
	return len(args) > 0 && args[len(args)-1].text == "-1"
}

// metadata are the addresses at which clouds hand out credentials.
var metadata = []string{"169.254.169.254", "metadata.google.internal", "fd00:ec2::254", "100.100.100.200"}

func (e *examiner) arguments(inv invocation) {
	if inv.name == "" || inv.name == "echo" || inv.name == "printf" {
		return
	}
	for _, w := range inv.args {
		for _, address := range metadata {
			if strings.Contains(w.text, address) {
				e.ask("a cloud's metadata address")
			}
		}
	}
}

func (e *examiner) remove(inv invocation) {
	recursive := inv.has("rR", "--recursive")
	for _, w := range inv.args {
		switch {
		case recursive && isRoot(w.text), w.text == "--no-preserve-root":
			e.never("deleting a system directory")
		case isDevice(w.text):
			e.never("writing to a block device")
		}
	}
	switch {
	case inv.piped:
		e.ask("xargs " + inv.name)
	case recursive:
		e.ask("rm -r")
	default:
		e.ask(inv.name)
	}
}

func (e *examiner) find(inv invocation) {
	deletes := slices.ContainsFunc(inv.args, func(w word) bool { return w.text == "-delete" })
	for i, w := range inv.args {
		switch w.text {
		case "-exec", "-execdir", "-ok", "-x", "-X":
			if name := path.Base(inv.arg(i + 1)); name == "rm" || name == "unlink" || name == "shred" || shells[name] {
				deletes = true
			}
		}
	}
	if !deletes {
		return
	}
	e.ask("find -delete")
	if isRoot(inv.arg(0)) {
		e.never("deleting a system directory")
	}
}

// runsShell examines what a shell is given to run.
func (e *examiner) runsShell(s *script, inv invocation) {
	if inv.name == "eval" {
		e.shell(joined(inv.args), s.depth+1)
		if slices.ContainsFunc(inv.args, func(w word) bool { return w.dynamic }) {
			e.ask(computed)
		}
		return
	}
	for i, w := range inv.args {
		if strings.HasSuffix(w.text, "()") && w.dynamic {
			e.ask(inv.name + " of a process")
		}
		if len(w.text) > 1 && w.text[0] == '-' && w.text[1] != '-' && strings.Contains(w.text, "c") && i+1 < len(inv.args) {
			next := inv.args[i+1]
			e.shell(next.text, s.depth+1)
			if next.dynamic {
				e.ask(computed)
			}
			break
		}
	}
	if inv.command.input != "" {
		e.shell(inv.command.input, s.depth+1)
	}
}

// runsPython examines what Python is given to run.
func (e *examiner) runsPython(s *script, inv invocation) {
	for i, w := range inv.args {
		if w.text == "-c" && i+1 < len(inv.args) {
			e.cell(inv.args[i+1].text, s.depth+1)
			break
		}
	}
	if inv.command.input != "" {
		e.cell(inv.command.input, s.depth+1)
	}
}

func (e *examiner) git(inv invocation) {
	for i := 0; i < len(inv.args); i++ {
		sub := invocation{args: inv.args[i+1:]}
		switch inv.args[i].text {
		case "-C", "-c", "--git-dir", "--work-tree":
			i++
			continue
		case "reset":
			if sub.has("", "--hard") {
				e.ask("git reset --hard")
			}
		case "clean":
			if sub.has("fxd", "--force") {
				e.ask("git clean -f")
			}
		case "push":
			forced := slices.ContainsFunc(sub.args, func(w word) bool {
				return strings.HasPrefix(w.text, "--force") || strings.HasPrefix(w.text, "+") || w.text == "--delete" || w.text == "--mirror"
			})
			if forced || sub.has("fd") {
				e.ask("git push --force")
			}
		case "branch":
			if sub.has("D") {
				e.ask("git branch -D")
			}
		default:
			if strings.HasPrefix(inv.args[i].text, "-") {
				continue
			}
		}
		return
	}
}

// roots are folders that no command deletes on purpose.
var roots = set("/bin /boot /dev /etc /home /lib /lib32 /lib64 /opt /proc /root /run /sbin /srv /sys /usr /var ~")

// isRoot reports whether a path is the root, a system directory or the home directory, or all that is in one.
func isRoot(name string) bool {
	if name == "" {
		return false
	}
	if name[0] == '/' {
		name = path.Clean(name)
	}
	name = strings.TrimSuffix(strings.TrimSuffix(name, "*"), "/")
	return name == "" || roots[name]
}

// devices matches block devices.
var devices = regexp.MustCompile(`^/dev/(?:[shv]d[a-z]|xvd|nvme|mmcblk|disk|dm-|md|loop|mapper/|sr\d)`)

func isDevice(name string) bool { return devices.MatchString(name) }

// credentials matches files that log somebody in, or that run at a login.
var credentials = regexp.MustCompile(`(?:^|/)(?:\.ssh/|\.bashrc$|\.bash_profile$|\.bash_login$|\.profile$|\.zshrc$|\.zprofile$|\.netrc$|\.pgpass$|` +
	`\.npmrc$|\.pypirc$|\.git-credentials$|\.aws/|\.kube/config|\.docker/config\.json|\.gnupg/)|^/etc/(?:passwd|shadow|sudoers|cron|profile|ssh/)`)

// write examines a file that is written or changed.
func (e *examiner) write(to word) {
	switch {
	case isDevice(to.text):
		e.never("writing to a block device")
	case credentials.MatchString(to.text):
		e.ask("a file with credentials or login settings")
	case e.isOutside(to.text):
		e.ask("writing to a mount")
	}
}

// isOutside reports whether a path lies in a folder that is worth protecting, and not in outputs there.
func (e *examiner) isOutside(name string) bool {
	if !strings.HasPrefix(name, "/") {
		if !strings.HasPrefix(path.Clean(name), "..") {
			return false
		}
		name = "/workspace/" + name
	}
	name = path.Clean(name)
	return slices.ContainsFunc(e.outside, func(folder string) bool {
		rest, below := strings.CutPrefix(name, strings.TrimSuffix(folder, "/"))
		return below && (rest == "" || rest[0] == '/') && !strings.HasPrefix(rest, "/outputs/")
	})
}

var (
	drops   = regexp.MustCompile(`(?i)\bdrop\s+(?:table|database|schema|view|index|user|role)\b|\btruncate\s+(?:table\s+)?\w`)
	deletes = regexp.MustCompile(`(?i)\bdelete\s+from\s+[^;]*`)
	where   = regexp.MustCompile(`(?i)\bwhere\b`)
)

// sql examines a text for a database.
func (e *examiner) sql(text string) {
	if drops.MatchString(text) {
		e.ask("SQL DROP or TRUNCATE")
	}
	for _, statement := range deletes.FindAllString(text, maxPatterns) {
		if !where.MatchString(statement) {
			e.ask("SQL DELETE without WHERE")
		}
	}
}
