package server

import (
	"encoding/json"
	"go/ast"
	"go/parser"
	"go/token"
	"os"
	"path/filepath"
	"reflect"
	"regexp"
	"strconv"
	"strings"
	"testing"

	"talaria/api"
)

// The tests here check the reference against the code: what it must name is read from the code itself.

// reference lists the pages that describe the API together.
var reference = []string{
	"api.md", "sessions.md", "executions.md", "events.md", "files.md", "access.md", "api-errors.md", "limits.md", "names.md", "terminals.md",
	"document.md", "render.md",
}

func apiReference(t *testing.T) string {
	t.Helper()
	var text strings.Builder
	for _, page := range reference {
		text.Write(docs(t, page))
	}
	return text.String()
}

// docs reads a file of the documentation, by its path below docs.
func docs(t *testing.T, page string) []byte {
	t.Helper()
	text, err := os.ReadFile(filepath.Join("../docs", page))
	if err != nil {
		t.Fatal(err)
	}
	return text
}

// parsed returns the Go files of a folder, without its tests.
func parsed(t *testing.T, dir string) []*ast.File {
	t.Helper()
	names, err := filepath.Glob(filepath.Join(dir, "*.go"))
	if err != nil || len(names) == 0 {
		t.Fatalf("no Go files in %s: %v", dir, err)
	}
	var files []*ast.File
	for _, name := range names {
		if strings.HasSuffix(name, "_test.go") {
			continue
		}
		file, err := parser.ParseFile(token.NewFileSet(), name, nil, parser.SkipObjectResolution)
		if err != nil {
			t.Fatal(err)
		}
		files = append(files, file)
	}
	return files
}

// inspect calls see for each node of all files.
func inspect(files []*ast.File, see func(ast.Node)) {
	for _, file := range files {
		ast.Inspect(file, func(n ast.Node) bool { see(n); return true })
	}
}

// literal returns the value of a string literal, "" for anything else.
func literal(e ast.Expr) string {
	lit, ok := e.(*ast.BasicLit)
	if !ok || lit.Kind != token.STRING {
		return ""
	}
	text, err := strconv.Unquote(lit.Value)
	if err != nil {
		return ""
	}
	return text
}

func named(e ast.Expr, name string) bool {
	ident, ok := e.(*ast.Ident)
	return ok && ident.Name == name
}

// apiCodes returns the constants of type Code.
func apiCodes(t *testing.T) []api.Code {
	var codes []api.Code
	inspect(parsed(t, "../api"), func(n ast.Node) {
		if spec, ok := n.(*ast.ValueSpec); ok && named(spec.Type, "Code") {
			for _, value := range spec.Values {
				codes = append(codes, api.Code(literal(value)))
			}
		}
	})
	return codes
}

// apiEvents returns the event types by name, with the names of their fields.
func apiEvents(t *testing.T) map[string][]string {
	files := parsed(t, "../api")
	structs := map[string]*ast.StructType{}
	inspect(files, func(n ast.Node) {
		if spec, ok := n.(*ast.TypeSpec); ok {
			if s, ok := spec.Type.(*ast.StructType); ok {
				structs[spec.Name.Name] = s
			}
		}
	})
	events := map[string][]string{}
	inspect(files, func(n ast.Node) {
		f, ok := n.(*ast.FuncDecl)
		if !ok || f.Name.Name != "EventType" || f.Body == nil {
			return
		}
		result := f.Body.List[0].(*ast.ReturnStmt).Results[0]
		if name := literal(result); name != "" { // RawEvent has none of its own
			events[name] = jsonFields(structs, f.Recv.List[0].Type.(*ast.Ident).Name)
		}
	})
	return events
}

// jsonFields returns the wire names of a struct's fields, including those of embedded structs.
func jsonFields(structs map[string]*ast.StructType, name string) []string {
	var fields []string
	for _, field := range structs[name].Fields.List {
		if len(field.Names) == 0 {
			fields = append(fields, jsonFields(structs, field.Type.(*ast.Ident).Name)...)
			continue
		}
		tag := reflect.StructTag(literal(field.Tag)).Get("json")
		wire, _, _ := strings.Cut(tag, ",")
		fields = append(fields, wire)
	}
	return fields
}

// sentFrames returns the types of the frames that this package makes and that are not events.
func sentFrames(t *testing.T) map[string]bool {
	frames := map[string]bool{}
	inspect(parsed(t, "."), func(n ast.Node) {
		made, ok := n.(*ast.CompositeLit)
		if !ok {
			return
		}
		if of, ok := made.Type.(*ast.SelectorExpr); !ok || !named(of.X, "api") {
			return
		}
		for _, element := range made.Elts {
			if pair, ok := element.(*ast.KeyValueExpr); ok && named(pair.Key, "Type") && literal(pair.Value) != "" {
				frames[literal(pair.Value)] = true
			}
		}
	})
	return frames
}

var (
	callSpan = regexp.MustCompile("`(GET|HEAD|POST|PUT|PATCH|DELETE|OPTIONS) (/[^`? ]*)[^`]*`")
	example  = regexp.MustCompile("(?s)```json\n(.*?)```")
)

func TestTheReferenceNamesExactlyTheRoutes(t *testing.T) {
	text := apiReference(t) + string(docs(t, "batch.md"))
	documented := map[string]bool{}
	for _, m := range callSpan.FindAllStringSubmatch(text, -1) {
		documented[m[1]+" "+m[2]] = true
	}
	served := map[string]bool{}
	for _, r := range new(Server).routes() {
		route := r.method + " " + r.path
		served[route] = true
		if !documented[route] {
			t.Errorf("the reference lacks `%s`", route)
		}
	}
	for route := range documented {
		if !served[route] {
			t.Errorf("the reference names `%s`, which is not a route", route)
		}
	}
}

func TestTheReferenceHasEveryErrorWithItsStatus(t *testing.T) {
	text := string(docs(t, "api-errors.md"))
	codes := apiCodes(t)
	if len(codes) < 30 {
		t.Fatalf("only %d codes were found in package api", len(codes))
	}
	for _, code := range codes {
		if row := "\n| `" + string(code) + "` | " + strconv.Itoa(code.Status()) + " | "; !strings.Contains(text, row) {
			t.Errorf("docs/api-errors.md has no row %q", row)
		}
	}
}

func TestTheReferenceHasEveryEventWithItsFields(t *testing.T) {
	_, text, _ := strings.Cut(string(docs(t, "events.md")), "\n## Events\n")
	events := apiEvents(t)
	if len(events) < 15 {
		t.Fatalf("only %d events were found in package api", len(events))
	}
	for name, fields := range events {
		_, row, found := strings.Cut(text, "\n| `"+name+"` | ")
		if !found {
			t.Errorf("the reference has no row for the event `%s`", name)
			continue
		}
		row, _, _ = strings.Cut(row, "\n")
		for _, field := range fields {
			if !strings.Contains(row, "`"+field+"`") {
				t.Errorf("the reference: event `%s` lacks its field `%s`", name, field)
			}
		}
	}
}

func TestTheReferenceHasEveryFrame(t *testing.T) {
	text := apiReference(t)
	sent := sentFrames(t)
	if len(sent) < 3 {
		t.Fatalf("only the frames %v were found in this package", sent)
	}
	for name := range frameKinds {
		sent[name] = true
	}
	for name := range sent {
		if !strings.Contains(text, "`"+name+"`") {
			t.Errorf("the reference lacks the frame `%s`", name)
		}
	}
}

func TestTheReferenceHasEveryFieldOfRequestsAndResources(t *testing.T) {
	for page, types := range map[string][]reflect.Type{
		"sessions.md": {
			reflect.TypeFor[api.SessionRequest](), reflect.TypeFor[api.SessionPatch](), reflect.TypeFor[api.ResetRequest](),
			reflect.TypeFor[api.InterruptRequest](), reflect.TypeFor[api.InputRequest](), reflect.TypeFor[api.Session](),
			reflect.TypeFor[api.PendingInput](),
		},
		"executions.md": {reflect.TypeFor[api.ExecutionRequest](), reflect.TypeFor[api.Execution](), reflect.TypeFor[api.ExecutionUsage]()},
		"files.md":      {reflect.TypeFor[api.Artifact](), reflect.TypeFor[api.SessionArtifact](), reflect.TypeFor[api.File]()},
		"limits.md":     {reflect.TypeFor[api.LimitsRequest](), reflect.TypeFor[api.Truncated]()},
	} {
		text := string(docs(t, page))
		for _, of := range types {
			for _, field := range reflect.VisibleFields(of) {
				name, _, _ := strings.Cut(field.Tag.Get("json"), ",")
				if name != "" && name != "-" && !strings.Contains(text, "`"+name+"`") && !strings.Contains(text, `"`+name+`":`) {
					t.Errorf("docs/%s lacks %q of %v", page, name, of)
				}
			}
		}
	}
}

func TestTheExamplesOfTheReferenceAreJSON(t *testing.T) {
	examples := example.FindAllStringSubmatch(apiReference(t), -1)
	if len(examples) < 4 {
		t.Fatalf("only %d examples", len(examples))
	}
	for _, m := range examples {
		if !json.Valid([]byte(m[1])) {
			t.Errorf("this is not JSON: %.200s", m[1])
		}
	}
}

// TestTheReferenceIsLinkedBothWays finds each page of it from docs/api.md, and docs/api.md from each page.
func TestTheReferenceIsLinkedBothWays(t *testing.T) {
	_, table, found := strings.Cut(string(docs(t, "api.md")), "\n## Reference\n")
	if !found {
		t.Fatal("docs/api.md has no section Reference")
	}
	for _, page := range append(reference[1:], "batch.md") {
		if !strings.Contains(table, "]("+page+")") {
			t.Errorf("the table at the end of docs/api.md lacks %s", page)
		}
		if text := string(docs(t, page)); !strings.Contains(text, "](api.md)") {
			t.Errorf("docs/%s does not link to docs/api.md", page)
		}
	}
}

// TestTheReferenceBeginsWithAShortPage holds docs/api.md to what a person reads in ten minutes.
func TestTheReferenceBeginsWithAShortPage(t *testing.T) {
	if words := len(strings.Fields(string(docs(t, "api.md")))); words > 2500 {
		t.Errorf("docs/api.md has %d words, more than 2500: move what few people need to a page of the reference", words)
	}
}

var (
	link    = regexp.MustCompile(`\]\(([^)#]*)(#[^)]*)?\)`)
	heading = regexp.MustCompile(`(?m)^#+ (.*)$`)
	fenced  = regexp.MustCompile("(?ms)^```.*?^```$")
	dropped = regexp.MustCompile(`[^\p{L}\p{N} _-]`)
)

// anchors returns the anchors of a page's headings, as forges generate them.
func anchors(page []byte) map[string]bool {
	found := map[string]bool{"": true}
	for _, m := range heading.FindAllSubmatch(fenced.ReplaceAll(page, nil), -1) {
		text := dropped.ReplaceAllString(strings.ToLower(string(m[1])), "")
		found["#"+strings.ReplaceAll(text, " ", "-")] = true
	}
	return found
}

func TestTheLinksOfTheDocumentationLeadSomewhere(t *testing.T) {
	pages, err := filepath.Glob("../docs/*.md")
	if err != nil {
		t.Fatal(err)
	}
	for _, page := range append(pages, "../README.md", "../CONTRIBUTING.md", "../SECURITY.md", "../CHANGELOG.md") {
		text := docs(t, filepath.Join("..", "server", page))
		for _, m := range link.FindAllSubmatch(fenced.ReplaceAll(text, nil), -1) {
			path := string(m[1])
			if strings.Contains(path, "://") {
				continue
			}
			target := text
			if path != "" {
				if target, err = os.ReadFile(filepath.Join(filepath.Dir(page), path)); err != nil {
					t.Errorf("%s: link %s: %v", page, m[0], err)
					continue
				}
			}
			if !anchors(target)[string(m[2])] {
				t.Errorf("%s: link %s leads to no heading", page, m[0])
			}
		}
	}
}

// TestTheIndexNamesEveryPage checks docs/README.md against the folder.
func TestTheIndexNamesEveryPage(t *testing.T) {
	index := string(docs(t, "README.md"))
	pages, err := filepath.Glob("../docs/*.md")
	if err != nil {
		t.Fatal(err)
	}
	for _, page := range pages {
		if name := filepath.Base(page); name != "README.md" && !strings.Contains(index, "["+name+"]("+name+")") {
			t.Errorf("docs/README.md lacks %s", name)
		}
	}
}
