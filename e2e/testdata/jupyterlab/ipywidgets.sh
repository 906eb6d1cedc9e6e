#!/bin/sh
# Puts the module ipywidgets of Debian 13's package into a new folder, the first argument, without installing the package. It comes
# from where this machine's Debian has its packages.
set -eu
into=$(realpath -m "$1")
work=$(mktemp -d)
trap 'rm -rf "$work"' EXIT
. "$(dirname "$0")/../debian.sh"
prepare_release trixie "$work"
cd "$work"
in_release apt-get -qq download python3-ipywidgets
dpkg-deb -x python3-ipywidgets_*.deb files
mkdir "$into.new"
mv files/usr/lib/python3/dist-packages/ipywidgets "$into.new"
mv "$into.new" "$into"
