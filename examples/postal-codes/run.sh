#!/usr/bin/env bash
# Asks for the street of a postal code. README.md says what to look at.
set -euo pipefail
. "$(dirname "${BASH_SOURCE[0]}")/../lib.sh"

export POSTAL_TOKEN=token-of-the-example # service.yaml wants it
start_service POSTAL_URL
start_model
start_gateway

curl -sS -D "$work/headers" -o "$work/reply" "$gateway_url/v1/chat/completions" -H 'Content-Type: application/json' -d '{
  "model": "assistant",
  "messages": [{"role": "user", "content": "Which street has the postal code 01001-000?"}]
}'
show
show_service
