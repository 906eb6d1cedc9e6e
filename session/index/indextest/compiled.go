package indextest

import (
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"
)

const extension = `
#define PY_SSIZE_T_CLEAN
#include <Python.h>
static PyObject *answer(PyObject *self, PyObject *none) { return PyLong_FromLong(42); }
static PyMethodDef methods[] = {{"answer", answer, METH_NOARGS, ""}, {NULL, NULL, 0, NULL}};
static struct PyModuleDef module = {PyModuleDef_HEAD_INIT, "cext", NULL, -1, methods};
PyMODINIT_FUNC PyInit_cext(void) { return PyModule_Create(&module); }
`

const describe = `
import platform, sys, sysconfig
print(sysconfig.get_paths()["include"], sysconfig.get_config_var("EXT_SUFFIX"), sysconfig.get_platform(),
      "cp%d%d" % sys.version_info[:2])`

// Compiled is a wheel of the project cext with a module cext in C, for one interpreter. Where that cannot be compiled
// here, why says what is missing.
func Compiled(t testing.TB, python string) (f File, why string) {
	t.Helper()
	out, err := exec.Command(python, "-I", "-c", describe).Output()
	if err != nil {
		t.Fatalf("describe %s: %v", python, err)
	}
	about := strings.Fields(string(out))
	if _, err := os.Stat(filepath.Join(about[0], "Python.h")); err != nil {
		return f, "there are no headers of Python (python3-dev)"
	}
	dir := t.TempDir()
	source, library := filepath.Join(dir, "cext.c"), filepath.Join(dir, "cext.so")
	if err := os.WriteFile(source, []byte(extension), 0o600); err != nil {
		t.Fatal(err)
	}
	if out, err := exec.Command("gcc", "-shared", "-fPIC", "-O1", "-I"+about[0], "-o", library, source).CombinedOutput(); err != nil {
		return f, fmt.Sprintf("gcc does not compile: %v %s", err, out)
	}
	content, err := os.ReadFile(library)
	if err != nil {
		t.Fatal(err)
	}
	return Wheel{
		Name: "cext", Version: "1.0", Files: map[string]string{"cext" + about[1]: string(content)},
		Tag: fmt.Sprintf("%[1]s-%[1]s-%[2]s", about[3], strings.NewReplacer("-", "_", ".", "_").Replace(about[2])),
	}.File(), ""
}
