#!/usr/bin/env bash
# Asks for a refund, approves it, and asks again. README.md says what to look at.
set -euo pipefail
. "$(dirname "${BASH_SOURCE[0]}")/../lib.sh"

"$gateway" key new >"$work/desk"
"$gateway" key new >"$work/manager"
DESK_KEY_SHA256=$(sed -n 's/.*sha256: "\(.*\)"/\1/p' "$work/desk")
MANAGER_KEY_SHA256=$(sed -n 's/.*sha256: "\(.*\)"/\1/p' "$work/manager")
export DESK_KEY_SHA256 MANAGER_KEY_SHA256
desk=$(grep '^tg-' "$work/desk")
manager=$(grep '^tg-' "$work/manager")

export SHOP_KEY=key-of-the-example # service.yaml wants it
start_service SHOP_URL
start_model
start_gateway

ask() {
	curl -sS -D "$work/headers" -o "$work/reply" "$gateway_url/v1/chat/completions" \
		-H "Authorization: Bearer $desk" -H 'Content-Type: application/json' -d '{
  "model": "gpt-5-mini",
  "messages": [{"role": "user", "content": "Please refund 4711, it came broken."}]
}'
	show
}

echo 'The desk asks:'
ask
id=$(tr -d '\r' <"$work/headers" | sed -nE 's/^[Xx]-[Gg]ateway-[Aa]pproval: //p')

echo
echo 'It may not approve that itself:'
curl -sS -o "$work/decision" -w 'status   %{http_code}\n' "$gateway_url/gateway/approvals/$id" \
	-H "Authorization: Bearer $desk" -H 'Content-Type: application/json' -d '{"approve": true}'

echo
echo 'The manager sees what waits, and approves:'
curl -sS "$gateway_url/gateway/approvals" -H "Authorization: Bearer $manager" >"$work/waiting"
sed -nE 's/.*"tool": ?"([^"]*)", ?"arguments": ?"(([^"\\]|\\.)*)".*/waits    \1 \2/p' "$work/waiting" | sed 's/\\"/"/g'
curl -sS -o "$work/decision" -w 'status   %{http_code}\n' "$gateway_url/gateway/approvals/$id" \
	-H "Authorization: Bearer $manager" -H 'Content-Type: application/json' -d '{"approve": true}'

echo
echo 'The desk asks again:'
ask
show_service
