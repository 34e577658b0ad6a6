#!/usr/bin/env bash
# Asks what a file says. README.md says what to look at.
set -euo pipefail
. "$(dirname "${BASH_SOURCE[0]}")/../lib.sh"

FILES_SERVER=$(program files/server)
export FILES_SERVER
start_model
start_gateway

curl -sS -D "$work/headers" -o "$work/reply" "$gateway_url/v1/chat/completions" -H 'Content-Type: application/json' -d '{
  "model": "gpt-5-mini",
  "messages": [{"role": "user", "content": "How long is the notice of our lease?"}]
}'
show
