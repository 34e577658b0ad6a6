package openapi

import (
	"bytes"
	"encoding/json"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/getkin/kin-openapi/openapi3"
)

// A resource of the issue tracker of testdata/tracker.yaml has the usual five operations and some of its own.
type resource struct {
	path, one, many string
	about           string
	fields          []string // "name | schema | description"; * before the name: required
	filters         []string // of the list, likewise
	actions         []string // "method path | operationId | summary | body schema or - "
}

var tracker = []resource{
	{
		"/projects", "Project", "Projects", "A project groups the issues of one product or team. Its key stands before the numbers of its issues, as in `SHIP-42`.",
		[]string{"*key | {type: string, pattern: '^[A-Z][A-Z0-9]{1,9}$'} | Short capital key; it can't be changed once issues exist.", "*name | {type: string, maxLength: 120} | Name that people see.", "lead_id | {type: integer, nullable: true} | User who answers for the project.", "visibility | {type: string, enum: [private, internal, public], default: internal} | Who may see it."},
		[]string{"visibility | {type: string, enum: [private, internal, public]} | Only projects of this visibility.", "archived | {type: boolean, default: false} | Archived projects instead of active ones."},
		[]string{"post /projects/{project_id}/archive | archiveProject | Archive a project; its issues become read-only. | -", "post /projects/{project_id}/restore | restoreProject | Bring an archived project back. | -", "get /projects/{project_id}/statistics | getProjectStatistics | Count the issues of a project by state and priority. | -"},
	},
	{
		"/projects/{project_id}/issues", "Issue", "Issues", "An issue is a bug, a task or a wish. Numbers count from 1 within each project.",
		[]string{"*title | {type: string, maxLength: 200} | One line that says what is wrong or wanted.", "body | {type: string, nullable: true} | Details in Markdown.", "type | {type: string, enum: [bug, task, story, epic]} | Kind of work.", "priority | {$ref: '#/components/schemas/Priority'} | How urgent it is.", "assignee_ids | {type: array, maxItems: 10, items: {type: integer}} | Users who work on it.", "label_ids | {type: array, items: {type: integer}} | Labels that it carries.", "due_on | {type: string, format: date, nullable: true} | Day by which it should be done.", "estimate | {type: number, minimum: 0} | Expected work in hours."},
		[]string{"state | {type: string, enum: [open, closed, all], default: open} | State of the issues.", "assignee_id | {type: integer} | Only issues of this user.", "label_ids | {type: array, items: {type: integer}} | explode=false: Only issues with all of these labels.", "updated_since | {type: string, format: date-time} | Only issues that changed since then."},
		[]string{"post /projects/{project_id}/issues/{issue_id}/close | closeIssue | Close an issue with a reason. | {type: object, required: [reason], properties: {reason: {type: string, enum: [done, duplicate, wont_do]}, duplicate_of: {type: integer, nullable: true}}}", "post /projects/{project_id}/issues/{issue_id}/reopen | reopenIssue | Reopen a closed issue. | -", "post /projects/{project_id}/issues/{issue_id}/transition | transitionIssue | Move an issue to another state of its workflow. | {type: object, required: [status], properties: {status: {type: string, description: Name of the state to move to.}, comment: {type: string}}}", "post /projects/{project_id}/issues/{issue_id}/move | moveIssue | Move an issue to another project, where it gets a new number. | {type: object, required: [project_id], properties: {project_id: {type: integer}, keep_labels: {type: boolean, default: true}}}", "put /projects/{project_id}/issues/{issue_id}/watchers/{user_id} | addWatcher | Let a user watch an issue. | -", "delete /projects/{project_id}/issues/{issue_id}/watchers/{user_id} | removeWatcher | Stop a user watching an issue. | -", "get /projects/{project_id}/issues/{issue_id}/history | getIssueHistory | List everything that changed on an issue, newest first. | -"},
	},
	{
		"/projects/{project_id}/issues/{issue_id}/comments", "Comment", "Comments", "Comments discuss an issue. A comment may answer another one.",
		[]string{"*body | {type: string, minLength: 1} | Text in Markdown; `@name` notifies a user.", "reply_to | {type: integer, nullable: true} | Comment that this one answers.", "internal | {type: boolean} | Only for members of the project."},
		[]string{"author_id | {type: integer} | Only comments of this user."},
		[]string{"post /projects/{project_id}/issues/{issue_id}/comments/{comment_id}/reactions | reactToComment | React to a comment with an emoji. | {type: object, required: [emoji], properties: {emoji: {type: string}}}"},
	},
	{"/projects/{project_id}/labels", "Label", "Labels", "Labels sort issues across boards and milestones.", []string{"*name | {type: string, maxLength: 50} | Unique in the project.", "color | {type: string, pattern: '^#[0-9a-f]{6}$'} | Background as six hex digits."}, nil, nil},
	{"/projects/{project_id}/milestones", "Milestone", "Milestones", "A milestone is a date with a goal.", []string{"*title | {type: string} | What is reached.", "due_on | {type: string, format: date} | Day of the milestone.", "description | {type: string} | More about the goal."}, []string{"state | {type: string, enum: [open, closed]} | State of the milestones."}, []string{"post /projects/{project_id}/milestones/{milestone_id}/close | closeMilestone | Close a milestone; its open issues stay open. | -"}},
	{"/projects/{project_id}/components", "Component", "Components", "Components are the parts of a product that issues belong to.", []string{"*name | {type: string} | Name of the part.", "owner_id | {type: integer, nullable: true} | User who gets its new issues."}, nil, nil},
	{"/projects/{project_id}/releases", "Release", "Releases", "A release ships issues to customers.", []string{"*version | {type: string} | Version such as 2.4.0.", "notes | {type: string} | What is new, in Markdown.", "draft | {type: boolean, default: true} | Not yet published."}, nil, []string{"post /projects/{project_id}/releases/{release_id}/publish | publishRelease | Publish a draft release and notify its watchers. | {type: object, properties: {at: {type: string, format: date-time, nullable: true}}}"}},
	{"/boards", "Board", "Boards", "A board shows issues of one or more projects in columns.", []string{"*name | {type: string} | Name of the board.", "project_ids | {type: array, minItems: 1, items: {type: integer}} | Projects whose issues it shows.", "filter | {$ref: '#/components/schemas/Filter'} | Which of their issues."}, nil, nil},
	{"/boards/{board_id}/columns", "Column", "Columns", "Columns hold the issues of a board by their state.", []string{"*name | {type: string} | Heading.", "limit | {type: integer, minimum: 0} | Most issues at once; 0 is no limit.", "states | {type: array, items: {type: string}} | Workflow states that land here."}, nil, []string{"post /boards/{board_id}/columns/reorder | reorderColumns | Put the columns of a board into a new order. | {type: array, items: {type: integer}, description: Ids of all columns in their new order.}"}},
	{"/boards/{board_id}/sprints", "Sprint", "Sprints", "A sprint is a fixed time in which chosen issues are done.", []string{"*name | {type: string} | Name of the sprint.", "goal | {type: string} | What it is for.", "starts_on | {type: string, format: date} | First day.", "ends_on | {type: string, format: date} | Last day."}, nil, []string{"post /boards/{board_id}/sprints/{sprint_id}/start | startSprint | Start a sprint. | -", "post /boards/{board_id}/sprints/{sprint_id}/finish | finishSprint | Finish a sprint and move what is left. | {type: object, properties: {move_open_to: {type: integer, nullable: true, description: 'Sprint that takes the open issues; null is the backlog.'}}}"}},
	{"/users", "User", "Users", "Users are people and machines with access.", []string{"*email | {type: string, format: email} | Address for notifications.", "*display_name | {type: string} | Name that others see.", "role | {type: string, enum: [guest, member, admin]} | What the user may do.", "time_zone | {type: string} | IANA name such as Europe/Lisbon."}, []string{"role | {type: string, enum: [guest, member, admin]} | Only users with this role.", "email | {type: string} | The user with this address."}, []string{"post /users/{user_id}/deactivate | deactivateUser | Take a user's access away and keep what they wrote. | -"}},
	{"/teams", "Team", "Teams", "Teams are groups of users that work together.", []string{"*name | {type: string} | Name of the team.", "member_ids | {type: array, uniqueItems: true, items: {type: integer}} | Users in it."}, nil, []string{"put /teams/{team_id}/members/{user_id} | addTeamMember | Add a user to a team. | -", "delete /teams/{team_id}/members/{user_id} | removeTeamMember | Take a user out of a team. | -"}},
	{"/workflows", "Workflow", "Workflows", "A workflow says which states issues pass through.", []string{"*name | {type: string} | Name of the workflow.", "transitions | {type: array, items: {$ref: '#/components/schemas/Transition'}} | Allowed moves."}, nil, nil},
	{"/webhooks", "Webhook", "Webhooks", "Webhooks tell other services what happens here.", []string{"*target | {type: string, format: uri} | Address that events are posted to.", "events | {type: array, items: {type: string, enum: [issue.created, issue.closed, comment.created, release.published]}} | Events that are sent.", "secret | {type: string, writeOnly: true} | Key of the signature."}, nil, []string{"post /webhooks/{webhook_id}/test | testWebhook | Send a test event to a webhook. | -"}},
	{"/time-entries", "TimeEntry", "TimeEntries", "Time entries record work on issues.", []string{"*issue_id | {type: integer} | Issue that was worked on.", "*minutes | {type: integer, minimum: 1, maximum: 1440} | How long.", "*day | {type: string, format: date} | When.", "note | {type: string} | What was done."}, []string{"user_id | {type: integer} | Only entries of this user.", "from | {type: string, format: date} | First day.", "to | {type: string, format: date} | Last day."}, nil},
	{"/saved-searches", "SavedSearch", "SavedSearches", "Saved searches are filters with a name.", []string{"*name | {type: string} | Name of the search.", "*filter | {$ref: '#/components/schemas/Filter'} | What it finds.", "shared_with | {type: array, items: {type: integer}} | Teams that see it."}, nil, []string{"get /saved-searches/{saved_search_id}/run | runSavedSearch | Run a saved search. | -"}},
	{"/custom-fields", "CustomField", "CustomFields", "Custom fields add values of your own to issues.", []string{"*name | {type: string} | Label of the field.", "*kind | {type: string, enum: [text, number, date, choice]} | Type of its values.", "choices | {type: array, items: {type: string}} | For kind choice: the values."}, nil, nil},
	{"/templates", "Template", "Templates", "Templates fill in new issues.", []string{"*name | {type: string} | Name of the template.", "*issue | {$ref: '#/components/schemas/IssueFields'} | What a new issue starts with."}, nil, nil},
	{"/automation-rules", "AutomationRule", "AutomationRules", "Automation rules act when something happens.", []string{"*name | {type: string} | Name of the rule.", "*when | {type: string, enum: [created, updated, due]} | What sets it off.", "condition | {$ref: '#/components/schemas/Filter'} | Only for issues that match.", "*action | {oneOf: [{$ref: '#/components/schemas/AssignAction'}, {$ref: '#/components/schemas/LabelAction'}]} | What it does."}, nil, []string{"post /automation-rules/{automation_rule_id}/enable | enableAutomationRule | Switch a rule on. | -", "post /automation-rules/{automation_rule_id}/disable | disableAutomationRule | Switch a rule off. | -"}},
}

// trackerExtra is what no resource has: uploads, a form, a search, objects in the query, what is deprecated.
const trackerExtra = `
  /attachments:
    post:
      operationId: uploadAttachment
      summary: Upload a file to an issue.
      requestBody:
        required: true
        content: {multipart/form-data: {schema: {type: object, properties: {issue_id: {type: integer}, file: {type: string, format: binary}}}}}
      responses: {"201": {description: The attachment.}}
  /attachments/{attachment_id}:
    get:
      operationId: downloadAttachment
      summary: Download an attached file.
      parameters:
        - {name: attachment_id, in: path, required: true, schema: {type: integer}}
        - {name: session, in: cookie, schema: {type: string}}
      responses: {"200": {description: The bytes of the file., content: {application/octet-stream: {}}}}
  /search:
    get:
      operationId: searchIssues
      summary: Search issues in all projects.
      description: |-
        Finds issues by words in their title, body and comments. Words are combined with AND; put a phrase in quotes.
        Results come best first.
      parameters:
        - {name: q, in: query, required: true, description: Words to look for., schema: {type: string, minLength: 2}}
        - {name: "filter[state]", in: query, schema: {type: string, enum: [open, closed]}}
        - name: created
          in: query
          style: deepObject
          explode: true
          description: Range of the day of creation.
          schema: {type: object, properties: {after: {type: string, format: date}, before: {type: string, format: date}}}
        - {name: project_ids, in: query, style: pipeDelimited, explode: false, schema: {type: array, items: {type: integer}}}
        - {name: fields, in: query, explode: false, schema: {type: array, items: {type: string, enum: [title, body, comments]}}}
        - {$ref: "#/components/parameters/Page"}
        - {$ref: "#/components/parameters/PerPage"}
      responses: {"200": {$ref: "#/components/responses/Found"}}
  /search/advanced:
    post:
      operationId: searchByFilter
      summary: Search issues by a filter, which may hold other filters.
      requestBody: {$ref: "#/components/requestBodies/Search"}
      responses: {"200": {$ref: "#/components/responses/Found"}}
  /tokens:
    post:
      operationId: exchangeToken
      summary: Exchange a code for an access token.
      security: []
      requestBody:
        required: true
        content:
          application/x-www-form-urlencoded:
            schema: {type: object, required: [grant_type, code], properties: {grant_type: {type: string, enum: [authorization_code]}, code: {type: string}, scope: {type: array, items: {type: string}}}}
      responses: {"200": {description: The token.}}
  /issues.json:
    get:
      operationId: listIssuesOld
      deprecated: true
      summary: List issues the way that version 1 did.
      responses: {"200": {$ref: "#/components/responses/Found"}}
  /me:
    get: {summary: Show who is asking., responses: {"200": {description: The user.}}}
  /me/notifications:
    get:
      summary: List what is new for the user who is asking.
      parameters: [{name: status, in: query, schema: {type: string, enum: [unread, all]}}, {name: If-Modified-Since, in: header, schema: {type: string}}]
      responses: {"200": {description: Notifications., headers: {Last-Modified: {schema: {type: string}}}}}
components:
  securitySchemes: {token: {type: http, scheme: bearer}}
  parameters:
    Page: {name: page, in: query, description: Page of the results, schema: {type: integer, minimum: 1, default: 1}}
    PerPage: {name: per_page, in: query, description: Results on a page, schema: {type: integer, minimum: 1, maximum: 100, default: 25}}
    IfMatch: {name: If-Match, in: header, description: "Tag of the version that is changed; another version is refused with 412.", schema: {type: string}}
  requestBodies:
    Search: {required: true, content: {application/json: {schema: {type: object, required: [filter], properties: {filter: {$ref: "#/components/schemas/Filter"}, limit: {type: integer, maximum: 1000}}}}}}
  responses:
    Found: {description: Issues., content: {application/json: {schema: {type: object, properties: {total: {type: integer}, items: {type: array, items: {$ref: "#/components/schemas/Issue"}}}}}}}
    NotFound: {description: There is no such thing.}
  schemas:
    Priority: {type: string, enum: [low, normal, high, urgent], description: Urgency from low to urgent.}
    Stamps:
      type: object
      properties:
        id: {type: integer, format: int64, readOnly: true}
        created_at: {type: string, format: date-time, readOnly: true}
        updated_at: {type: string, format: date-time, readOnly: true}
    Filter:
      type: object
      description: A condition on one field, or all or any of other filters.
      properties:
        field: {type: string}
        op: {type: string, enum: [eq, ne, lt, gt, contains]}
        value: {type: string, nullable: true}
        all: {type: array, items: {$ref: "#/components/schemas/Filter"}}
        any: {type: array, items: {$ref: "#/components/schemas/Filter"}}
    Transition: {type: object, required: [from, to], properties: {from: {type: string}, to: {type: string}, needs_role: {type: string, nullable: true}}}
    AssignAction: {type: object, required: [do, user_id], properties: {do: {type: string, enum: [assign]}, user_id: {type: integer}}}
    LabelAction: {type: object, required: [do, label_id], properties: {do: {type: string, enum: [label]}, label_id: {type: integer}}}
`

// trackerYAML is the document of testdata/tracker.yaml.
func trackerYAML() string {
	var paths, schemas strings.Builder
	byPath := map[string][]string{} // operations of a path
	var order []string
	add := func(path, operation string) {
		if byPath[path] == nil {
			order = append(order, path)
		}
		byPath[path] = append(byPath[path], operation)
	}
	for _, r := range tracker {
		item := r.path + "/{" + snake(r.one) + "_id}"
		add(r.path, r.operation("get", "list"+r.many, "List "+words(r.many)+".", r.about, r.path, r.query(), "", "200"))
		add(r.path, r.operation("post", "create"+r.one, "Create "+article(words(r.one))+".", "", r.path, "", r.one, "201"))
		add(item, r.operation("get", "get"+r.one, "Get one "+words(r.one)+".", "", item, "", "", "200"))
		add(item, r.operation("patch", "update"+r.one, "Change "+article(words(r.one))+".", "Only the given fields change.", item, "        - {$ref: \"#/components/parameters/IfMatch\"}\n", r.one+"Changes", "200"))
		add(item, r.operation("delete", "delete"+r.one, "Delete "+article(words(r.one))+" for good.", "", item, "", "", "204"))
		for _, a := range r.actions {
			part := strings.SplitN(a, " | ", 4)
			method, path, _ := strings.Cut(part[0], " ")
			add(path, r.operation(method, part[1], part[2], "", path, "", strings.Replace(part[3], "-", "", 1), "200"))
		}
		schemas.WriteString(r.schemas())
	}
	for _, path := range order {
		fmt.Fprintf(&paths, "  %s:\n%s", path, strings.Join(byPath[path], ""))
	}
	return `# Written by trackerYAML in tracker_test.go: go test -run TestTracker -update
openapi: 3.0.3
info:
  title: Tasklight
  version: "2.4"
  description: An issue tracker that does not exist, with the habits of those that do.
servers:
  - url: https://{region}.tasklight.example/api/v2
    variables: {region: {default: eu, enum: [eu, us]}}
security: [{token: []}]
paths:
` + paths.String() + strings.TrimPrefix(trackerExtra, "\n") + schemas.String()
}

// operation is one operation. body is a schema, or the name of one.
func (r resource) operation(method, id, summary, about, path, query, body, status string) string {
	var b strings.Builder
	fmt.Fprintf(&b, "    %s:\n      operationId: %s\n      tags: [%s]\n      summary: %s\n", method, id, r.many, summary)
	if about != "" {
		fmt.Fprintf(&b, "      description: %q\n", about)
	}
	var list strings.Builder
	for _, p := range placeInPath.FindAllStringSubmatch(path, -1) {
		fmt.Fprintf(&list, "        - {name: %s, in: path, required: true, schema: {type: integer, format: int64}}\n", p[1])
	}
	if list.WriteString(query); list.Len() > 0 {
		b.WriteString("      parameters:\n" + list.String())
	}
	if body != "" {
		if !strings.HasPrefix(body, "{") {
			body = `{$ref: "#/components/schemas/` + body + `"}`
		}
		fmt.Fprintf(&b, "      requestBody:\n        required: true\n        content:\n          application/json:\n            schema: %s\n", body)
	}
	b.WriteString("      responses:\n")
	fmt.Fprintf(&b, "        %q: {description: Done.}\n", status)
	b.WriteString("        \"404\": {$ref: \"#/components/responses/NotFound\"}\n")
	return b.String()
}

// query is the parameters of the list.
func (r resource) query() string {
	var b strings.Builder
	for _, f := range r.filters {
		part := strings.SplitN(f, " | ", 3)
		explode := ""
		if about, ok := strings.CutPrefix(part[2], "explode=false: "); ok {
			part[2], explode = about, ", explode: false"
		}
		fmt.Fprintf(&b, "        - {name: %s, in: query%s, description: %q, schema: %s}\n", part[0], explode, part[2], part[1])
	}
	return b.String() + "        - {$ref: \"#/components/parameters/Page\"}\n        - {$ref: \"#/components/parameters/PerPage\"}\n"
}

// schemas are that of what is sent, of what is changed, and of both with what the tracker sets.
func (r resource) schemas() string {
	var fields, required strings.Builder
	for _, f := range r.fields {
		part := strings.SplitN(f, " | ", 3)
		name, must := strings.CutPrefix(part[0], "*")
		if must {
			fmt.Fprintf(&required, "%s, ", name)
		}
		schema := strings.TrimSuffix(part[1], "}")
		fmt.Fprintf(&fields, "        %s: %s, description: %q}\n", name, schema, part[2])
	}
	must := ""
	if required.Len() > 0 {
		must = "\n      required: [" + strings.TrimSuffix(required.String(), ", ") + "]"
	}
	return fmt.Sprintf("    %sFields:\n      type: object%s\n      properties:\n%s", r.one, must, fields.String()) +
		fmt.Sprintf("    %sChanges:\n      type: object\n      minProperties: 1\n      properties:\n%s", r.one, fields.String()) +
		fmt.Sprintf("    %s:\n      allOf:\n        - {$ref: \"#/components/schemas/Stamps\"}\n        - {$ref: \"#/components/schemas/%sFields\"}\n", r.one, r.one)
}

// snake is "saved_search" of "SavedSearch".
func snake(s string) string { return strings.ReplaceAll(words(s), " ", "_") }

func words(s string) string {
	var b strings.Builder
	for i, c := range s {
		if i > 0 && c >= 'A' && c <= 'Z' {
			b.WriteByte(' ')
		}
		b.WriteString(strings.ToLower(string(c)))
	}
	return b.String()
}

func article(s string) string {
	if strings.Contains("aeio", s[:1]) {
		return "an " + s
	}
	return "a " + s
}

// golden compares a file of testdata with what it should be, or writes it.
func golden(t *testing.T, name, want string) {
	t.Helper()
	path := filepath.Join("testdata", name)
	if *update {
		if err := os.WriteFile(path, []byte(want), 0o644); err != nil {
			t.Fatal(err)
		}
	}
	have, err := os.ReadFile(path)
	if err != nil {
		t.Fatal(err)
	}
	if string(have) != want {
		t.Errorf("%s is not what it should be; go test -update, and read the diff", path)
	}
}

const trackerEntry = "openapi: {shop: {spec: tracker.yaml, prefix: '', auth: {bearer: sesame-open-it}}}"

// TestTracker makes tools of a document of the usual size, and shows what a model sees of some of them.
func TestTracker(t *testing.T) {
	golden(t, "tracker.yaml", trackerYAML())
	e := loadFrom("testdata", trackerEntry, nil)
	if p := e.file.Problems(); p != nil {
		t.Fatal(p)
	}
	if n := len(e.tools.Keys()); n < 100 {
		t.Errorf("%d tools, want over a hundred", n)
	}
	var seen bytes.Buffer
	for _, tl := range e.view(t, nilTransport{}).Tools() {
		switch tl.Name {
		case "listIssues", "createIssue", "updateIssue", "closeIssue", "transitionIssue", "moveIssue", "reorderColumns", "createAutomationRule", "searchIssues",
			"searchByFilter", "exchangeToken", "get_me", "get_me_notifications":
			fmt.Fprintf(&seen, "// %s\n", tl.Effect)
			if err := json.Indent(&seen, tl.Declaration(), "", "  "); err != nil {
				t.Fatal(err)
			}
			seen.WriteByte('\n')
		}
	}
	golden(t, "tracker.seen", seen.String()+"\n"+texts(e.file.Warnings())+"\n")
}

// TestTrackerAsKinReadsIt holds the tools against another reader of OpenAPI: each operation that it finds has one, and
// each parameter an argument.
func TestTrackerAsKinReadsIt(t *testing.T) {
	doc, err := openapi3.NewLoader().LoadFromFile("testdata/tracker.yaml")
	if err != nil {
		t.Fatal(err)
	}
	if err := doc.Validate(t.Context()); err != nil {
		t.Error(err)
	}
	e := loadFrom("testdata", trackerEntry, nil)
	missing := map[string]bool{"uploadAttachment": true, "listIssuesOld": true}
	count := 0
	for path, item := range doc.Paths.Map() {
		for method, op := range item.Operations() {
			name := op.OperationID
			if name == "" {
				name = strings.ToLower(method) + strings.ReplaceAll(path, "/", "_")
			}
			tl := e.tools.Get(name)
			if tl == nil {
				if !missing[name] {
					t.Errorf("%s %s is no tool", method, path)
				}
				continue
			}
			count++
			properties := tl.Get("parameters").Get("properties")
			for _, p := range op.Parameters {
				if v := p.Value; v.In != "cookie" && v.Style != "deepObject" && properties.Get(argumentName(v.Name)) == nil && properties.Get(v.In+"_"+v.Name) == nil {
					t.Errorf("%s has no argument for %s: %v", name, v.Name, properties.Keys())
				}
			}
		}
	}
	if count != len(e.tools.Keys()) {
		t.Errorf("%d tools of %d operations", len(e.tools.Keys()), count)
	}
}

// TestSameDocumentSameBytes: what the model sees must not change from one start to the next.
func TestSameDocumentSameBytes(t *testing.T) {
	declarations := func() string {
		return string(loadFrom("testdata", trackerEntry, nil).view(t, nilTransport{}).Declarations())
	}
	if first := declarations(); declarations() != first {
		t.Error("two readings of one document differ")
	}
}

// BenchmarkTracker is the reading of 130 operations: what a start or a reload pays for a document of the usual size.
func BenchmarkTracker(b *testing.B) {
	b.ReportAllocs()
	for b.Loop() {
		if e := loadFrom("testdata", trackerEntry, nil); len(e.tools.Keys()) < 100 {
			b.Fatal(e.file.Problems())
		}
	}
}
