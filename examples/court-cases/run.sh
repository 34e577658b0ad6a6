#!/usr/bin/env bash
# Asks the same of a database as two callers. README.md says what to look at.
set -euo pipefail
. "$(dirname "${BASH_SOURCE[0]}")/../lib.sh"

database=$(program internal/database)
"$database" court.sql "$work/court.db"
export COURT_DB=sqlite:$work/court.db

"$gateway" key new >"$work/clerk"
"$gateway" key new >"$work/judge"
CLERK_KEY_SHA256=$(sed -n 's/.*sha256: "\(.*\)"/\1/p' "$work/clerk")
JUDGE_KEY_SHA256=$(sed -n 's/.*sha256: "\(.*\)"/\1/p' "$work/judge")
export CLERK_KEY_SHA256 JUDGE_KEY_SHA256
start_model
start_gateway

for who in clerk judge; do
	echo "The $who:"
	curl -sS -D "$work/headers" -o "$work/reply" "$gateway_url/v1/chat/completions" \
		-H "Authorization: Bearer $(grep '^tg-' "$work/$who")" -H 'Content-Type: application/json' -d '{
  "model": "gpt-5-mini",
  "messages": [{"role": "user", "content": "Which cases has Alvorada?"}]
}'
	show
done
