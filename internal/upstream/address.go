package upstream

import (
	"net/url"
	"strings"

	"github.com/toolgate/toolgate/internal/chat"
)

// azureVersion is the newest version of Azure's inference API that is generally available.
const azureVersion = "2024-10-21"

// addresses are how a provider's endpoints are reached.
type addresses struct {
	base        *url.URL
	chat        *url.URL // of chat completions, where no deployment stands in it
	deployments bool     // Azure: the model is a deployment in the path
	version     string   // Azure: api-version; "" for none
}

func newAddresses(base *url.URL, c *Config) addresses {
	a := addresses{base: base, version: c.APIVersion}
	if c.Kind == kindAzure && !strings.HasSuffix(base.Path, "/openai/v1") { // that is Azure's API in OpenAI's own form
		a.deployments = true
		if a.version == "" {
			a.version = azureVersion
		}
		if !strings.HasSuffix(base.Path, "/openai") {
			a.base = addresses{base: base}.of("openai", "")
		}
	}
	if !a.deployments {
		a.chat = a.of("chat/completions", "")
	}
	return a
}

// deploymentPaths are the endpoints that Azure has below a deployment; all others name the model in the body.
var deploymentPaths = map[string]bool{
	"chat/completions": true, "completions": true, "embeddings": true,
	"audio/transcriptions": true, "audio/translations": true, "audio/speech": true,
	"images/generations": true, "images/edits": true,
}

// chatFor is the address of chat completions of a model.
func (a addresses) chatFor(model string) *url.URL {
	if a.chat != nil {
		return a.chat
	}
	return a.below("chat/completions", "", model)
}

// below is the address of a path below base_url, with the client's own escaping and query. model is that of the
// request, "" where it can't be told.
func (a addresses) below(path, query, model string) *url.URL {
	inPath := model != "" && model != "." && model != ".." // of those, a server might leave the folder of deployments
	if a.deployments && inPath && deploymentPaths[path] {
		path = "deployments/" + url.PathEscape(model) + "/" + path
	}
	return a.of(path, query)
}

func (a addresses) of(path, query string) *url.URL {
	u := *a.base
	u.RawPath = strings.TrimRight(u.EscapedPath(), "/") + "/" + path
	u.RawQuery = a.query(query)
	if plain, err := url.PathUnescape(u.RawPath); err == nil {
		u.Path = plain
	}
	return &u
}

// query is the client's own query with the version of the API, unless the client names one.
func (a addresses) query(own string) string {
	switch {
	case a.version == "":
		return own
	case own == "":
		return "api-version=" + url.QueryEscape(a.version)
	}
	for pair := range strings.SplitSeq(own, "&") {
		if name, _, _ := strings.Cut(pair, "="); name == "api-version" {
			return own
		}
	}
	return own + "&api-version=" + url.QueryEscape(a.version)
}

// target is the model's name at the provider.
func (r Route) target(req *chat.Request) string {
	if r.model != "" || req == nil {
		return r.model
	}
	return req.Model
}
