# Sourced by modern_lavapipe.sh and chip_compilers.sh: packages of Debian sid, unpacked into $dir/root beside the system,
# and programs that run on them. Nothing is installed; the mirror is the one of this machine's own apt sources. Wants
# `dir` and `fail MESSAGE`, sets `lib` and `triplet`.
case "$(uname -s)-$(uname -m)" in
  Linux-x86_64) triplet=x86_64-linux-gnu loader=ld-linux-x86-64.so.2 ;;
  Linux-aarch64) triplet=aarch64-linux-gnu loader=ld-linux-aarch64.so.1 ;;
  *) fail "only Linux on x86-64 and ARM64" ;;
esac
root=$dir/root
lib=$root/usr/lib/$triplet

# sid_packages WITH_DEPENDENCIES PACKAGE...: fetches and unpacks; "yes" brings the whole closure, the C library with it.
sid_packages() {
  command -v apt-get >/dev/null && command -v dpkg-deb >/dev/null || fail "needs apt-get and dpkg-deb"
  local mirror package closure=$1
  shift
  mirror=$(cat /etc/apt/sources.list /etc/apt/sources.list.d/* 2>/dev/null |
    grep -E '^(deb|URIs:)' | grep -oE '[a-z]+://[^] ]+/debian/?( |$)' | head -1 | tr -d ' ' || true)
  [[ -n $mirror ]] || fail "no Debian mirror in this machine's apt sources"
  mkdir -p "$dir"/{lists,cache/archives}/partial
  echo "deb $mirror sid main" >"$dir/sources.list"
  : >"$dir/status"  # nothing counts as installed
  local apt=(apt-get -qq -o "Dir::Etc::SourceList=$dir/sources.list" -o Dir::Etc::SourceParts=/dev/null
    -o "Dir::State::Lists=$dir/lists" -o "Dir::State::Status=$dir/status" -o "Dir::Cache=$dir/cache"
    -o Debug::NoLocking=1 -o APT::Sandbox::User= -o Acquire::Retries=1 -o Acquire::http::Timeout=30
    -o Acquire::https::Timeout=30 -o APT::Get::AllowUnauthenticated=false)
  "${apt[@]}" update >"$dir/log" 2>&1 || fail "the mirror does not serve sid: $(grep -m1 -E '^[EW]:' "$dir/log" || echo "see $dir/log")"
  local get=(install -y --download-only --no-install-recommends)
  [[ $closure == yes ]] || get=(download)
  (cd "$dir/cache/archives" && "${apt[@]}" "${get[@]}" "$@" >>"$dir/log" 2>&1) ||
    fail "the packages cannot be fetched: $(grep -m1 '^E:' "$dir/log" || echo "see $dir/log")"
  for package in "$dir"/cache/archives/*.deb; do dpkg-deb -x "$package" "$root"; done
  rm -rf "$dir/cache" "$dir/lists"
}

# sid_runner FILE ENVIRONMENT [LIBRARY]: a script that runs a program with these variables, and the library loaded first.
# The packages want a newer C library than a stable system has, so it starts the program under the fetched loader.
sid_runner() {
  local preload=${3:+"--preload \"$lib/$3\" "}
  cat >"$1" <<RUN
#!/usr/bin/env bash
export $2
program=\$(command -v -- "\$1") || { echo "\$1: not found" >&2; exit 127; }
shift
exec "$lib/$loader" $preload--argv0 "\$program" --library-path \\
  "$lib:\${LD_LIBRARY_PATH:-/lib/$triplet}:/lib/$triplet:/usr/lib/$triplet" "\$(readlink -f "\$program")" "\$@"
RUN
  chmod +x "$1"
}
