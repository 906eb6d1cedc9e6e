package run

import (
	"fmt"
	"path"
	"regexp"
	"strconv"
	"strings"
	"time"

	"talaria/kernel/oneshot"
)

const (
	python3 = "python"
	// program and classes are what compilers make; no file of a request may have these names.
	program = ".program"
	classes = ".classes"
)

// language is how programs of one language are compiled and run.
type language struct {
	name     string
	aliases  []string
	pkg      string   // of Debian
	programs []string // that it needs
	main     string   // the name of the file if only code is given
	// compile returns the compiler's command; nil for languages that are not compiled.
	compile func(Toolchain, source) []string
	// command returns the program's command; script says that its first element is a file of Python.
	command func(Toolchain, source) []string
	script  bool
	env     map[string]string // of the compiler
	cpu     time.Duration     // CPU time that the compiler may take unless the request says otherwise; 0: the usual
	// noMemory are words on standard error of a program that was refused memory.
	noMemory []string
}

// source is the program of a request.
type source struct {
	files  []oneshot.File
	entry  string
	memory int64 // the limit of the step
}

var languages = []language{
	{
		name: python3, aliases: []string{"py", "python3"}, pkg: "python3", main: "main.py", script: true,
		command:  func(_ Toolchain, s source) []string { return []string{s.entry} },
		noMemory: []string{"MemoryError"},
	},
	{
		name: "cpp", aliases: []string{"c++", "cxx"}, pkg: "g++", programs: []string{"g++"}, main: "main.cpp",
		compile: func(t Toolchain, s source) []string {
			return append([]string{t.Programs["g++"], "-std=gnu++20", "-O2", "-pipe", "-o", program}, s.with(".cpp", ".cc", ".cxx")...)
		},
		command: compiled, noMemory: []string{"std::bad_alloc"},
	},
	{
		name: "c", pkg: "gcc", programs: []string{"gcc"}, main: "main.c",
		compile: func(t Toolchain, s source) []string {
			return append(append([]string{t.Programs["gcc"], "-O2", "-pipe", "-o", program}, s.with(".c")...), "-lm")
		},
		command: compiled,
	},
	{
		name: "javascript", aliases: []string{"js", "node", "nodejs"}, pkg: "nodejs", programs: []string{"node"}, main: "main.js",
		command: func(t Toolchain, s source) []string {
			return []string{t.Programs["node"], fmt.Sprintf("--max-old-space-size=%d", max(s.memory*9/10>>20, 16)), s.entry}
		},
		noMemory: []string{"heap out of memory", "Array buffer allocation failed"},
	},
	{
		name: "java", pkg: "default-jdk-headless", programs: []string{"javac", "java"}, main: "Main.java",
		compile: func(t Toolchain, s source) []string {
			compiler := []string{t.Programs["javac"], "-J-XX:+UseSerialGC", "-J-XX:TieredStopAtLevel=1", "-J-Xmx" + heap(s.memory), "-d", classes}
			return append(append(compiler, "-encoding", "UTF-8"), s.with(".java")...)
		},
		command: func(t Toolchain, s source) []string {
			return []string{t.Programs["java"], "-XX:+UseSerialGC", "-XX:-UsePerfData", "-Xmx" + heap(s.memory), "-cp", classes, s.javaClass()}
		},
		noMemory: []string{"java.lang.OutOfMemoryError"},
	},
	{
		name: "go", aliases: []string{"golang"}, pkg: "golang-go", programs: []string{"go"}, main: "main.go",
		compile: func(t Toolchain, s source) []string {
			build := []string{t.Programs["go"], "build", "-o", program}
			if s.has("go.mod") {
				return append(build, "./"+path.Dir(s.entry))
			}
			return append(build, s.with(".go")...)
		},
		command: compiled, cpu: 2 * time.Minute, // it compiles its standard library
		env:      map[string]string{"GOTOOLCHAIN": "local", "GOPROXY": "off", "GOFLAGS": "-buildvcs=false", "CGO_ENABLED": "0"},
		noMemory: []string{"fatal error: runtime: out of memory", "cannot allocate memory"},
	},
	{
		name: "rust", aliases: []string{"rs"}, pkg: "rustc", programs: []string{"rustc", "cc"}, main: "main.rs",
		compile: func(t Toolchain, s source) []string {
			return []string{t.Programs["rustc"], "--edition", "2021", "-O", "-o", program, s.entry}
		},
		command: compiled, noMemory: []string{"memory allocation of"},
	},
	{
		name: "bash", aliases: []string{"sh", "shell"}, pkg: "bash", programs: []string{"bash"}, main: "main.sh",
		command: func(t Toolchain, s source) []string { return []string{t.Programs["bash"], s.entry} },
	},
}

func compiled(Toolchain, source) []string { return []string{"./" + program} }

// heap is the size of a Java heap that leaves room for what the virtual machine needs itself.
func heap(memory int64) string { return strconv.FormatInt(max(memory*6/10>>20, 16), 10) + "m" }

// languageOf returns the language of that name or alias, or nil.
func languageOf(name string) *language {
	name = strings.ToLower(name)
	for i, l := range languages {
		if l.name == name {
			return &languages[i]
		}
		for _, alias := range l.aliases {
			if alias == name {
				return &languages[i]
			}
		}
	}
	return nil
}

// Names lists the languages.
func Names() []string {
	var names []string
	for _, l := range languages {
		names = append(names, l.name)
	}
	return names
}

// with returns the files with one of these suffixes, the entry first.
func (s source) with(suffixes ...string) []string {
	list := []string{"./" + s.entry} // a name may begin with a hyphen
	for _, f := range s.files {
		for _, suffix := range suffixes {
			if strings.HasSuffix(f.Name, suffix) && f.Name != s.entry {
				list = append(list, "./"+f.Name)
			}
		}
	}
	return list
}

func (s source) has(name string) bool {
	for _, f := range s.files {
		if f.Name == name {
			return true
		}
	}
	return false
}

var (
	javaPackage = regexp.MustCompile(`(?m)^\s*package\s+([\w.]+)\s*;`)
	javaPublic  = regexp.MustCompile(`(?m)^\s*public\s+(?:(?:final|abstract|sealed|strictfp)\s+)*(?:class|record|enum|interface)\s+(\w+)`)
)

// javaClass returns the class whose main method is run: that of the entry's name, in its package.
func (s source) javaClass() string {
	class := strings.TrimSuffix(path.Base(s.entry), ".java")
	for _, f := range s.files {
		if f.Name != s.entry {
			continue
		}
		if found := javaPackage.FindSubmatch(f.Data); found != nil {
			return string(found[1]) + "." + class
		}
	}
	return class
}

// fileOf returns the name of the file that code goes into if the request gives none: Java wants that of its public class.
func (l *language) fileOf(code string) string {
	if l.name == "java" {
		if found := javaPublic.FindStringSubmatch(code); found != nil {
			return found[1] + ".java"
		}
	}
	return l.main
}
