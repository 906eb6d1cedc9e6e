#!/bin/sh
# Runs the runner's tests with the Python and the libraries of another Debian release, such as sid, under both engines. Needs root: it
# installs the release into bin/debian, from where this machine's Debian has its packages, and runs the tests in there. Further
# arguments name the tests to run instead of all.
set -eu
release=$1
shift
repository=$(cd "$(dirname "$0")/../../.." && pwd)
root=$repository/bin/debian/$release
if [ ! -e "$root/usr/bin/python3" ]; then
  command -v debootstrap >/dev/null || { apt-get -qq update && apt-get -qq install debootstrap >/dev/null; }
  mirror=$(apt-get indextargets --format '$(SITE)' 'Created-By: Packages' 2>/dev/null | head -n 1)
  rm -rf "$root"
  mkdir -p "$root"
  debootstrap --variant=minbase --include=python3,python3-numpy,python3-pandas,python3-matplotlib,python3-ipython,python3-pip,python3-venv,python3-dev,gcc,python3-tqdm,python3-rich \
    "$release" "$root" "$mirror" >"$root.log" 2>&1 || { tail -n 5 "$root.log"; exit 1; }
fi
mkdir -p "$root/repository"
[ $# -gt 0 ] || set -- discover -s tests -t .
export root repository
# The mounts end with this namespace.
exec unshare --mount --propagation private sh -euc '
  mount -t proc proc "$root/proc"
  mount --rbind /dev "$root/dev"
  mount -t tmpfs -o mode=1777 tmp "$root/tmp"
  mount --bind "$repository" "$root/repository"
  cd /
  failed=
  for engine in stdlib ipython; do
    echo "$(chroot "$root" python3 --version) of Debian, engine $engine"
    chroot "$root" env -C /repository/kernel/runner PYTHONDONTWRITEBYTECODE=1 RUNNER_ENGINE=$engine python3 -m unittest "$@" || failed=yes
  done
  [ -z "$failed" ]
' sh "$@"
