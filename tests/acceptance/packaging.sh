#!/usr/bin/env bash
# Tries the packaging of a release for this machine: the archive, its checksum, the installer, the npm package and the wheel. It fetches nothing.
#
#   tests/acceptance/packaging.sh        after `cargo build --release`
set -euo pipefail
cd "$(dirname "$0")/../.."
root=$(pwd)
version=$(target/release/forge --version | cut -d' ' -f2)
target=$(rustc -vV | sed -n 's/^host: //p')
work=$(mktemp -d)
trap 'rm -rf "$work" "$root/dist"' EXIT
fail() { echo "FAILED: $*" >&2; exit 1; }

echo "== archive"
rm -rf dist
packaging/archive.sh "$version" "$target"
packaging/checksums.sh dist

echo "== installer"
mkdir -p "$work/releases/v$version"
cp dist/* "$work/releases/v$version/"
export HOME=$work/home FORGE_RELEASES=file://$work/releases FORGE_VERSION=$version
mkdir -p "$HOME"
sh packaging/install.sh
[ "$("$HOME/.local/bin/forge" --version)" = "forge $version" ] || fail "the installed binary does not run"
sh packaging/install.sh > /dev/null
echo x >> "$work/releases/v$version/forge-$version-$target.tar.gz"
rm "$HOME/.local/bin/forge"
if sh packaging/install.sh 2> "$work/refused"; then fail "a changed archive was installed"; fi
grep -q "does not match its checksum: nothing was installed" "$work/refused" || fail "$(cat "$work/refused")"
[ ! -e "$HOME/.local/bin/forge" ] || fail "a changed archive was installed"

echo "== npm and Python packages"
packaging/wrappers.sh "$version" dist "$work/build"
(cd "$work" && npm pack --silent ./build/npm > packed && mkdir npm && npm i --silent --offline --prefix npm "./$(cat packed)")
[ "$("$work/npm/node_modules/.bin/forge" --version)" = "forge $version" ] || fail "the npm package does not run"
code=0
(cd "$work" && npm/node_modules/.bin/forge run --model nowhere: task < /dev/null 2> /dev/null) || code=$?
[ "$code" = 2 ] || fail "the npm package returns $code"
python3 -m venv "$work/venv"
"$work/venv/bin/pip" -q install --no-index "$work"/build/pypi/*.whl
[ "$("$work/venv/bin/forge" --version)" = "forge $version" ] || fail "the wheel does not run"
echo "all is well"
