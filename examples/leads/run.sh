#!/usr/bin/env bash
# Has a lead read out of a message, then another saved. README.md says what to look at.
set -euo pipefail
. "$(dirname "${BASH_SOURCE[0]}")/../lib.sh"

export CRM_KEY=key-of-the-example # service.yaml wants it
start_service CRM_URL
start_model
start_gateway

echo 'The lead in a message, as data:'
curl -sS -D "$work/headers" -o "$work/reply" "$gateway_url/v1/chat/completions" -H 'Content-Type: application/json' -d '{
  "model": "extract",
  "messages": [{"role": "user", "content": "Hi, Ann Lee here (ann@example.com), looking for a flat to rent, up to 900."}]
}'
show

echo
echo 'A lead that is saved:'
curl -sS -D "$work/headers" -o "$work/reply" "$gateway_url/v1/chat/completions" -H 'Content-Type: application/json' -d '{
  "model": "desk",
  "messages": [{"role": "user", "content": "It is Ann Lee, ann@example.com. Please call me about the flat, up to 900 to rent."}]
}'
show
show_service
