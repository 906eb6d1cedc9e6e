#!/bin/sh
# Puts the module ipywidgets of Debian 13's package into a new folder, the first argument, without installing the package. It comes
# from where this machine's Debian has its packages.
set -eu
into=$(realpath -m "$1")
work=$(mktemp -d)
trap 'rm -rf "$work"' EXIT
. /etc/os-release
mkdir -p "$work/sources" "$work/lists/partial" "$work/cache/archives/partial"
for list in /etc/apt/sources.list /etc/apt/sources.list.d/debian.sources; do
  [ ! -s "$list" ] || sed "s/\b$VERSION_CODENAME\b/trixie/g" "$list" > "$work/sources/$(basename "$list")"
done
[ ! -e "$work/sources/sources.list" ] || mv "$work/sources/sources.list" "$work/sources/debian.list"
apt() {
  apt-get -qq -o Dir::Etc::sourcelist=/dev/null -o Dir::Etc::sourceparts="$work/sources" -o Dir::State::lists="$work/lists" \
    -o Dir::Cache="$work/cache" -o APT::Sandbox::User="$(id -un)" -o Acquire::Languages=none -o Acquire::IndexTargets::deb::DEP-11::DefaultEnabled=false "$@"
}
apt update
cd "$work"
apt download python3-ipywidgets
dpkg-deb -x python3-ipywidgets_*.deb files
mkdir "$into.new"
mv files/usr/lib/python3/dist-packages/ipywidgets "$into.new"
mv "$into.new" "$into"
