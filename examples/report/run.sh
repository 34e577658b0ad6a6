#!/usr/bin/env bash
# Asks for a report of the shape that request.json has. README.md says what to look at.
set -euo pipefail
. "$(dirname "${BASH_SOURCE[0]}")/../lib.sh"

start_model
start_gateway

curl -sS -D "$work/headers" -o "$work/reply" "$gateway_url/v1/chat/completions" -H 'Content-Type: application/json' -d @request.json
show
