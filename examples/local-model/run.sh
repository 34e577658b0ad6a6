#!/usr/bin/env bash
# Asks a model without native tool calls what it needs a tool for. README.md says what to look at.
set -euo pipefail
. "$(dirname "${BASH_SOURCE[0]}")/../lib.sh"

start_model
start_gateway

curl -sS -D "$work/headers" -o "$work/reply" "$gateway_url/v1/chat/completions" -H 'Content-Type: application/json' -d '{
  "model": "small",
  "messages": [{"role": "user", "content": "How many litres are 12 gallons?"}]
}'
show
show_model
