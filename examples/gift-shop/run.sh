#!/usr/bin/env bash
# Looks for a gift, and orders it. README.md says what to look at.
set -euo pipefail
. "$(dirname "${BASH_SOURCE[0]}")/../lib.sh"

export SHOP_KEY=key-of-the-example
start_service SHOP_URL
start_model
start_gateway

curl -sS -D "$work/headers" -o "$work/reply" "$gateway_url/v1/chat/completions" -H 'Content-Type: application/json' -d '{
  "model": "gpt-5-mini",
  "messages": [{"role": "user", "content": "A birthday gift for about 20 euros, with a ribbon, please."}]
}'
show

echo
curl -sS -D "$work/headers" -o "$work/reply" "$gateway_url/v1/chat/completions" -H 'Content-Type: application/json' -d '{
  "model": "gpt-5-mini",
  "messages": [
    {"role": "user", "content": "A birthday gift for about 20 euros, with a ribbon, please."},
    {"role": "assistant", "content": "The mug with a ribbon. Shall I order it?"},
    {"role": "user", "content": "Yes, please."}
  ]
}'
show
show_service
