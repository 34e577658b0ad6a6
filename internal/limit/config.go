package limit

// Config is what one key may have: `auth.keys[].limits`. 0 is no limit.
type Config struct {
	RequestsPerMinute int64   `yaml:"requests_per_minute" min:"0" doc:"Requests a minute below /v1 and to /mcp; more get 429 with Retry-After. 0 is no limit."`
	TokensPerMinute   int64   `yaml:"tokens_per_minute" min:"0" doc:"Tokens a minute. A request is refused while none are left, and pays what it used once it has ended. 0 is no limit."`
	CostPerDay        float64 `yaml:"cost_per_day" min:"0" doc:"Cost a day, from midnight to midnight UTC, by the models' prices. A request is refused once so much is spent, and pays what it cost when it has ended. 0 is no limit."`
	Concurrent        int64   `yaml:"concurrent" min:"0" doc:"Requests at once; more get 429. 0 is no limit."`
}
