package indextest

import (
	"fmt"
	"strings"
	"sync"
	"testing"
)

// HugeBytes is what the module of huge takes when it is installed.
const HugeBytes = 96 << 20

// Standard is an index with projects of each kind:
//
//	greet         1.0, 2.0 and 3.0rc1; needs parcel; has a console script greet, which prints "hello from greet VERSION"
//	parcel        1.0 and 1.5, the latter with its metadata apart
//	old-parcel    1.0; needs parcel<1.2, which greet 2.0 does not bear
//	numpy         99.0, one module, which every numpy is older than
//	paper         1.0, a source distribution, built in an environment of its own
//	torn          1.0, a source distribution that cannot be built
//	trojan        1.0, a setup.py that tries what it can and leaves what it found in trojan.findings, a dictionary
//	huge          1.0, small to download and HugeBytes to install
//	wrong-hash    1.0, whose hash in the index is another one
//	elsewhere     1.0, which lies at the index Elsewhere
//	metadata-host 1.0, whose file is said to lie at a link-local address
//	no-hash       1.0, of which the index does not say the hash
//	recalled      1.0, and 1.1, which is yanked
//	future        1.0, and 2.0, which needs Python 4
//	secret        1.0, for lists of names; needs-secret 1.0 depends on it
//	bundle        1.0, which needs part-1 to part-20
//	missing-part  1.0, which needs a project that is not there
func Standard(t testing.TB) *Index {
	t.Helper()
	ix := New(t)
	for _, version := range []string{"1.0", "2.0", "3.0rc1"} {
		requires := []string{"parcel>=1"}
		if version == "2.0" {
			requires = []string{"parcel>=1.5"}
		}
		ix.Add("greet", Wheel{Name: "greet", Version: version, Requires: requires, Scripts: map[string]string{"greet": "greet:main"},
			Files: map[string]string{"greet.py": fmt.Sprintf(
				"import parcel\n__version__ = %q\ndef main():\n    print('hello from greet', __version__)\n", version)}}.File())
	}
	ix.Add("parcel", module("parcel", "1.0"), Wheel{Name: "parcel", Version: "1.5", Metadata: true,
		Files: map[string]string{"parcel/__init__.py": "__version__ = '1.5'\n", "parcel/data/label.txt": "to you\n"}}.File())
	ix.Add("old-parcel", module("old-parcel", "1.0", "parcel<1.2"))
	ix.Add("numpy", module("numpy", "99.0"))
	ix.Add(Backend, backend())
	ix.Add("paper", Built("paper", "1.0", "paper", "__version__ = '1.0'\n", ""))
	ix.Add("torn", Built("torn", "1.0", "torn", "", "for i in range(1000): print('crack', i)\nraise SystemExit('the paper is torn')"))
	ix.Add("trojan", trojan())
	ix.Add("huge", huge())
	ix.Add("wrong-hash", withHash(module("wrong-hash", "1.0"), strings.Repeat("0", 64)))
	elsewhere := New(t)
	lies := module("elsewhere", "1.0")
	elsewhere.Add("elsewhere", lies)
	lies.URL = elsewhere.FileURL("elsewhere", lies.Name)
	ix.Elsewhere = elsewhere
	ix.Add("elsewhere", lies)
	local := module("metadata-host", "1.0")
	local.URL = "http://169.254.169.254/latest/" + local.Name
	ix.Add("metadata-host", local)
	ix.Add("no-hash", withHash(module("no-hash", "1.0"), NoHash))
	recalled := module("recalled", "1.1")
	recalled.Yanked = "it is wrong"
	ix.Add("recalled", module("recalled", "1.0"), recalled)
	ix.Add("future", module("future", "1.0"), Wheel{Name: "future", Version: "2.0", RequiresPython: ">=4",
		Files: map[string]string{"future.py": ""}}.File())
	ix.Add("secret", module("secret", "1.0"))
	ix.Add("needs-secret", module("needs-secret", "1.0", "secret"))
	parts := make([]string, 20)
	for i := range parts {
		parts[i] = fmt.Sprint("part-", i+1)
		ix.Add(parts[i], module(parts[i], "1.0"))
	}
	ix.Add("bundle", module("bundle", "1.0", parts...))
	ix.Add("missing-part", module("missing-part", "1.0", "is-nowhere"))
	return ix
}

// huge takes a while to make.
var huge = sync.OnceValue(func() File {
	return Wheel{Name: "huge", Version: "1.0",
		Files: map[string]string{"huge.py": "", "huge.bin": strings.Repeat("\x00", HugeBytes)}}.File()
})

// module is a wheel with one module, which knows its version.
func module(name, version string, requires ...string) File {
	return Wheel{Name: name, Version: version, Requires: requires, Files: map[string]string{
		strings.ReplaceAll(name, "-", "_") + ".py": fmt.Sprintf("__version__ = %q\n", version),
	}}.File()
}

func withHash(f File, hash string) File {
	f.SHA256 = hash
	return f
}
