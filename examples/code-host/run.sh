#!/usr/bin/env bash
# Asks about the issues of a repository. README.md says what to look at.
set -euo pipefail
. "$(dirname "${BASH_SOURCE[0]}")/../lib.sh"

export CODE_HOST_TOKEN=token-of-the-example # service.yaml wants it
start_service CODE_HOST_URL
start_model
start_gateway

show_tools
curl -sS -D "$work/headers" -o "$work/reply" "$gateway_url/v1/chat/completions" -H 'Content-Type: application/json' -d '{
  "model": "gpt-5-mini",
  "messages": [{"role": "user", "content": "Which bugs of acme/lamps are open, and who is at the newest?"}]
}'
show
show_service | LC_ALL=C sort # the first two are asked side by side
