# What the scripts of the examples share: to start what an example needs on free ports of this machine, to show what came
# of it, and to end it all. A script turns errexit, nounset and pipefail on and sources this file, which takes it to its
# own folder. Wanted are bash, curl, and Go for the small programs that stand in for other people's services.
#
# Of the environment it takes
#   GATEWAY         the gateway's binary; else bin/gateway of the checkout (make build), else gateway in the PATH
#   LISTEN          address of the gateway; else a free port of 127.0.0.1
#   MODEL_LISTEN    address of the scripted model, and
#   SERVICE_LISTEN  of the service; likewise
#   EXAMPLES_BIN    folder of the small programs; else bin of the checkout
# shellcheck shell=bash

root=$(cd "$(dirname "${BASH_SOURCE[0]}")/.." && pwd)
gateway=${GATEWAY:-$root/bin/gateway}
if [[ -z ${GATEWAY:-} && ! -x $gateway ]]; then
	gateway=gateway
fi
if ! gateway=$(command -v -- "$gateway"); then
	echo "there is no gateway: make build, or set GATEWAY to its binary" >&2
	exit 1
fi
[[ $gateway == /* ]] || gateway=$PWD/$gateway
programs=${EXAMPLES_BIN:-$root/bin}
[[ $programs == /* ]] || programs=$PWD/$programs
cd "$(dirname "${BASH_SOURCE[1]}")"

export NO_PROXY=127.0.0.1 no_proxy=127.0.0.1 # curl would ask a proxy of the environment

work=$(mktemp -d) # for what a run leaves
pids=()

# finish ends what was started, the gateway first, and shows the logs of a run that failed.
finish() {
	local status=$? i
	trap - EXIT INT TERM
	for ((i = ${#pids[@]} - 1; i >= 0; i--)); do
		kill "${pids[i]}" 2>/dev/null || true
		wait "${pids[i]}" 2>/dev/null || true
	done
	if ((status != 0)); then
		tail -n 20 "$work"/*.log >&2 2>/dev/null || true
	fi
	rm -rf "$work"
	exit "$status"
}
trap finish EXIT
trap 'exit 130' INT
trap 'exit 143' TERM

# serve NAME COMMAND...: starts a program that tells on stderr at what address it serves, and sets address to that.
serve() {
	local name=$1 log=$work/$1.log tries
	shift
	: >"$log" # it is read before the program has begun
	"$@" >/dev/null 2>"$log" &
	pids+=($!)
	for ((tries = 0; tries < 300; tries++)); do
		address=$(sed -nE '/(at http:\/\/|"address":")[^"]*:[0-9]+/{s/.*(at http:\/\/|"address":")([^"\/]*:[0-9]+).*/\2/p;q;}' "$log")
		if [[ -n $address ]]; then
			return
		fi
		kill -0 $! 2>/dev/null || break # it has ended
		sleep 0.1
	done
	echo "the $name does not serve" >&2
	return 1
}

# program PACKAGE: builds a small program of the examples, unless it is there and up to date, and prints its path.
program() {
	local out
	out=$programs/example-$(basename "$1")
	(cd "$root" && go build -buildvcs=false -o "$out" "./examples/$1") >&2 && echo "$out"
}

# start_model serves model.yaml, the scripted model, in place of a provider.
start_model() {
	serve model "$gateway" mock model.yaml --listen "${MODEL_LISTEN:-127.0.0.1:0}"
	export OPENAI_BASE_URL=http://$address/v1 OPENAI_API_KEY=unused
}

# start_service NAME: serves what service.yaml says, in place of a real service, and gives the gateway its address as NAME.
start_service() {
	local service
	service=$(program internal/service)
	serve service "$service" -listen "${SERVICE_LISTEN:-127.0.0.1:0}" service.yaml
	export "$1=http://$address"
}

# start_gateway serves gateway.yaml, and sets gateway_url to its address once it is ready.
start_gateway() {
	export LISTEN=${LISTEN:-127.0.0.1:0}
	serve gateway "$gateway" serve -c gateway.yaml
	gateway_url=http://$address
	local tries
	for ((tries = 0; tries < 300; tries++)); do
		if curl -sf -o "$work/ready" "$gateway_url/readyz"; then
			return
		fi
		sleep 0.1
	done
	echo "the gateway is not ready: $(curl -s "$gateway_url/readyz")" >&2
	return 1
}

# show prints of the reply in $work/reply and $work/headers the answer, and the trace without what differs between runs.
show() {
	local answer newline=$'\n         '
	answer=$(sed -nE 's/.*"content": ?"(([^"\\]|\\.)*)".*/\1/p' "$work/reply" | sed -E -e 's/\\"/"/g' -e 's/apr_[0-9A-Z]+/apr_ID/')
	if [[ -z $answer ]]; then
		echo "no answer: $(cat "$work/reply")" >&2
		return 1
	fi
	echo "answer   ${answer//\\n/$newline}"
	tr -d '\r' <"$work/headers" | sed -nE -e 's/(upstream_)?ms=[0-9]+, //g' -e 's/;ms=[0-9]+//g' -e 's/^([^:]*: )id="[^"]*", /\1/' -e 's/apr_[0-9A-Z]+/apr_ID/' -e 's/^[Xx]-[Gg]ateway-[Tt]race: /trace    /p'
}

# show_service prints the requests that the service got.
show_service() {
	sed -n 's/^request /service  /p' "$work/service.log"
}

# show_tools prints what the model is offered.
show_tools() {
	"$gateway" tools list -c gateway.yaml | sed -nE 's/^([^ ]+) +[^ ]+ +(read|write) .*/offered  \1, \2/p'
}

# show_model prints the requests that the model got.
show_model() {
	sed -nE 's/^request [0-9]+: /model    /p' "$work/model.log"
}
