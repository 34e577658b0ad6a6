package upstream

// profile is what is known of a provider: where it is, and its switches. A switch is set where the provider was seen
// to refuse or to ignore what OpenAI takes, and for nothing else; what a file says wins.
type profile struct {
	base string // "" where each operator has an address of their own
	kind string
	set  func(*Switches)
}

// switches are those of the profile.
func (p profile) switches() Switches {
	var s Switches
	s.SetDefaults()
	if p.set != nil {
		p.set(&s)
	}
	return s
}

// What other providers put into messages. Providers with strict schemas refuse it: Groq by "property
// 'reasoning_content' is unsupported", Mistral by "extra_forbidden".
var reasoningFields = []string{"reasoning_content", "reasoning", "reasoning_details"}

// OpenAI's rules of names and ids: "Expected a string that matches the pattern '^[a-zA-Z0-9_-]+$'", "with maximum
// length 64", and of ids "with maximum length 40".
const (
	openAINames = `[a-zA-Z0-9_-]{1,64}`
	openAIIDs   = `(?s).{1,40}`
)

// asOpenAI is what OpenAI's own models want. Those since o1 refuse max_tokens: "Use 'max_completion_tokens' instead".
func asOpenAI(s *Switches) {
	s.MaxTokensField = "max_completion_tokens"
	s.DropMessageFields = reasoningFields
	s.ToolNames = openAINames
	s.CallIDs = openAIIDs
}

// ownTemplate is what a server wants that fills the chat template which comes with the model: many know no developer,
// and raise for a second system message or one that is not the first (Qwen: "System message must be at the
// beginning").
func ownTemplate(s *Switches) {
	s.DeveloperRole = false
	s.System = systemMerged
	heldToSchema(s)
}

// heldToSchema is for a server that holds a model to a schema from its first token on, so that it can't call a tool and
// makes the answer up.
func heldToSchema(s *Switches) { s.SchemaWithTools = false }

// profiles are all profiles, by name. Their names stand in the tag of Config.Profile too.
var profiles = map[string]profile{
	"openai": {base: "https://api.openai.com/v1", kind: kindOpenAI, set: asOpenAI},
	"azure":  {kind: kindAzure, set: asOpenAI},
	"gemini": {base: "https://generativelanguage.googleapis.com/v1beta/openai", kind: kindOpenAI, set: func(s *Switches) {
		// "Invalid function name. Must start with a letter or an underscore."
		s.ToolNames = `[a-zA-Z_][a-zA-Z0-9_.-]{0,63}`
		// "Unknown name \"additionalProperties\" at 'tools[0].function_declarations[0].parameters': Cannot find field."
		s.SchemaDrop = []string{"$schema", "$id", "additionalProperties", "propertyNames", "patternProperties", "const", "exclusiveMinimum", "exclusiveMaximum"}
	}},
	"mistral": {base: "https://api.mistral.ai/v1", kind: kindOpenAI, set: func(s *Switches) {
		s.StreamUsage = false // its streams end with the usage unasked
		s.MaxTokensField = "max_tokens"
		// Members that it does not know are refused: 422, extra_forbidden. These change nothing that a client could miss;
		// others, such as logprobs, come back as Mistral's own error.
		s.Drop = []string{"stream_options", "store", "user", "seed", "service_tier", "prompt_cache_key", "safety_identifier"}
		s.DropMessageFields = append([]string{"name", "refusal", "annotations", "audio"}, reasoningFields...)
		s.CallIDs = `[a-zA-Z0-9]{9}` // "must be a-z, A-Z, 0-9, with a length of 9"
		s.System = systemMerged      // "Unexpected role 'system' after role 'assistant'"
		s.DeveloperRole = false
	}},
	"deepseek": {base: "https://api.deepseek.com/v1", kind: kindOpenAI, set: func(s *Switches) {
		s.MaxTokensField = "max_tokens"
		s.DeveloperRole = false // "unknown variant `developer`"
	}},
	"groq": {base: "https://api.groq.com/openai/v1", kind: kindOpenAI, set: func(s *Switches) {
		// Its own models give and take reasoning, which stays.
		s.DropMessageFields = []string{"name", "refusal", "annotations", "audio", "reasoning_content", "reasoning_details"}
	}},
	"openrouter": {base: "https://openrouter.ai/api/v1", kind: kindOpenAI, set: func(s *Switches) {
		s.DeveloperRole = false // some of the providers behind it refuse it
	}},
	"ollama": {base: "http://127.0.0.1:11434/v1", kind: kindOpenAI, set: func(s *Switches) {
		s.MaxTokensField = "max_tokens" // the other name was ignored, and replies without end came
		s.DeveloperRole = false
		heldToSchema(s)
	}},
	"vllm": {base: "http://127.0.0.1:8000/v1", kind: kindOpenAI, set: ownTemplate},
	"llamacpp": {base: "http://127.0.0.1:8080/v1", kind: kindOpenAI, set: func(s *Switches) {
		ownTemplate(s)
		s.MaxTokensField = "max_tokens" // llama-server ignored the other name until 2026
		s.EmptyContent = true           // llama-cpp-python fails on an assistant message without content
	}},
	"lmstudio": {base: "http://127.0.0.1:1234/v1", kind: kindOpenAI, set: func(s *Switches) {
		ownTemplate(s)
		s.MaxTokensField = "max_tokens"
	}},
}
