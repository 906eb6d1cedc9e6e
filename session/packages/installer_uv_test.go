package packages_test

import (
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"

	"talaria/session/index/indextest"
)

// uvWords prints what uv prints, and installs with pip. It leaves a process behind that holds its output.
const uvWords = `#!/bin/sh
echo "$@" >> "$(dirname "$0")/asked"
case "$*" in
*--dry-run*)
	sleep 300 &
	printf 'Resolved 2 packages in 5ms\nWould download 2 packages\nWould install 2 packages\n + greet==2.0\n + parcel==1.5\n'
	exit 0;;
esac
while [ "$1" != -- ]; do [ "$1" = --prefix ] && prefix=$2; shift; done
exec /usr/bin/python3 -I -m pip -q install --no-deps --ignore-installed --prefix "$prefix" "$@"
`

// withUv puts a program that answers as uv first on the PATH.
func (i *installers) withUv(script string) (asked string) {
	i.Helper()
	dir := i.TempDir()
	if err := os.WriteFile(filepath.Join(dir, "uv"), []byte(script), 0o755); err != nil {
		i.Fatal(err)
	}
	i.env[0] = "PATH=" + dir + ":/usr/bin:/bin"
	return filepath.Join(dir, "asked")
}

func TestInstallersUseUvWhereItIs(t *testing.T) {
	t.Parallel()
	if out, err := exec.Command(system, "-c", "import pip").CombinedOutput(); err != nil {
		t.Skipf("SKIP: %s has no pip (apt-get install python3-pip): %s", system, out)
	}
	i := newInstallers(t, system, indextest.Standard(t))
	log := i.withUv(uvWords)
	i.ok(order{Requirements: []string{"greet>=1"}})
	i.prints("import greet, parcel; print(greet.__version__, parcel.__version__)", "2.0 1.5")
	asked, err := os.ReadFile(log)
	want := "pip install --python /usr/bin/python3 --dry-run -c "
	if err != nil || !strings.HasPrefix(string(asked), want) || !strings.Contains(string(asked), " -- greet>=1\n") ||
		!strings.Contains(string(asked), "-- greet==2.0 parcel==1.5\n") {
		t.Errorf("uv was asked %s (%v)", asked, err)
	}
	if out := i.ok(order{Requirements: []string{"greet>=1"}}); i.layers != 1 || !strings.Contains(out, "Everything is already installed") {
		t.Errorf("%d layers\n%s", i.layers, out)
	}
	for _, other := range []string{"#!/bin/sh\necho 'error: unexpected argument' >&2; exit 2\n", "#!/bin/sh\necho 'Would install 1 package'\n"} {
		i.withUv(other)
		out := i.ok(order{Requirements: []string{"paper"}, Reinstall: true, NoDeps: true})
		if !strings.Contains(out, "Collecting paper") {
			t.Errorf("pip was not asked instead:\n%s", out)
		}
	}
	i.withUv("#!/bin/sh\nprintf '  × No solution found when resolving dependencies:\\n  ╰─▶ Because a and b\\n' >&2; exit 1\n")
	i.fails(order{Requirements: []string{"greet", "parcel<1"}}, "cannot be installed together")
}
