# To be sourced: packages of another Debian release than this machine's, from where this machine's Debian has its packages, without
# installing them.

# prepare_release RELEASE FOLDER makes in_release usable with the packages of that release. FOLDER, which exists, holds their lists.
prepare_release() {
  release_folder=$2
  . /etc/os-release
  mkdir -p "$2/sources" "$2/lists/partial" "$2/cache/archives/partial"
  for list in /etc/apt/sources.list /etc/apt/sources.list.d/debian.sources; do
    [ ! -s "$list" ] || sed "s/\b$VERSION_CODENAME\b/$1/g" "$list" > "$2/sources/$(basename "$list")"
  done
  [ ! -e "$2/sources/sources.list" ] || mv "$2/sources/sources.list" "$2/sources/debian.list"
  in_release apt-get -qq update
}

# in_release COMMAND ARGUMENT... runs a command of apt with the packages of the release.
in_release() {
  command=$1
  shift
  "$command" -o Dir::Etc::sourcelist=/dev/null -o Dir::Etc::sourceparts="$release_folder/sources" -o Dir::State::lists="$release_folder/lists" \
    -o Dir::Cache="$release_folder/cache" -o APT::Sandbox::User="$(id -un)" -o Acquire::Languages=none \
    -o Acquire::IndexTargets::deb::DEP-11::DefaultEnabled=false "$@"
}
