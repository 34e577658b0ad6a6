package loop

// Stop is why a run ended. It is a metric label.
type Stop string

// The stop reasons.
const (
	Completed     Stop = "completed"
	Final         Stop = "final"        // by a final tool
	ClientTools   Stop = "client_tools" // the turn calls tools of the client
	Handoff       Stop = "handoff"      // by a tool that hands the user over to somebody else
	Confirmation  Stop = "confirmation" // a call waits for an approval
	MaxSteps      Stop = "max_steps"
	MaxToolCalls  Stop = "max_tool_calls"
	MaxTokens     Stop = "max_tokens"
	MaxCost       Stop = "max_cost"
	RepeatedCalls Stop = "repeated_calls"
	Length        Stop = "length" // the token limit cut the turn
	TimedOut      Stop = "timeout"
	Canceled      Stop = "canceled" // the client left
	UpstreamError Stop = "upstream_error"
	Refused       Stop = "refused" // content filter
	Failed        Stop = "error"   // anything of ours
)

// Stops are all of them, for metrics that exist from the start.
func Stops() []Stop {
	return []Stop{
		Completed, Final, Handoff, ClientTools, Confirmation, MaxSteps, MaxToolCalls, MaxTokens, MaxCost, RepeatedCalls, Length,
		TimedOut, Canceled, UpstreamError, Refused, Failed,
	}
}
