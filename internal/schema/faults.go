package schema

import (
	"fmt"
	"math/big"
	"slices"
	"strconv"
	"strings"

	"github.com/santhosh-tekuri/jsonschema/v6"
	"github.com/santhosh-tekuri/jsonschema/v6/kind"

	"github.com/toolgate/toolgate/internal/tool"
)

// fault is one thing that is wrong with a value.
type fault struct {
	path []string // to the value
	text string   // what would be right
	why  jsonschema.ErrorKind

	where string // path as one text, for the sorting
}

// maxLeaves is how many faults are looked at for one value. A list of a hundred thousand wrong items is told by fewer.
const maxLeaves = 1000

// reading puts into words what the library says of a value.
type reading struct{ value any }

// flat are the faults that the library found, as a list.
func (r reading) flat(e *jsonschema.ValidationError) []fault {
	at := e.InstanceLocation
	one := func(format string, args ...any) []fault {
		return []fault{{path: at, text: fmt.Sprintf(format, args...), why: e.ErrorKind}}
	}
	switch k := e.ErrorKind.(type) {
	case *kind.AnyOf:
		return r.fold(e)
	case *kind.OneOf:
		if len(k.Subschemas) > 0 {
			return one("fits more than one of the forms that exclude each other")
		}
		return r.fold(e)
	case *kind.Required:
		return eachName(e, k.Missing, "is required")
	case *kind.DependentRequired:
		return eachName(e, k.Missing, "is required beside "+keyText(k.Prop))
	case *kind.Dependency:
		return eachName(e, k.Missing, "is required beside "+keyText(k.Prop))
	case *kind.AdditionalProperties:
		return eachName(e, k.Properties, "is not a known argument")
	case *kind.PropertyNames:
		reasons := texts(r.causes(e))
		return eachName(e, []string{k.Property}, "is not a valid name: "+strings.Join(reasons, ", "))
	case *kind.FalseSchema:
		return one("%s", forbidden(e.SchemaURL))
	case *kind.Contains:
		return one("must have an item of the kind that the schema asks for")
	case *kind.MinContains:
		return one("must have at least %s of the kind that the schema asks for, got %d", count(k.Want, "item"), len(k.Got))
	case *kind.MaxContains:
		return one("must have at most %s of the kind that the schema names, got %d", count(k.Want, "item"), len(k.Got))
	}
	if text := sentence(e.ErrorKind); text != "" {
		return one("%s", text)
	}
	if found := r.causes(e); found != nil {
		return found
	}
	return one("is not valid")
}

func (r reading) causes(e *jsonschema.ValidationError) []fault {
	var found []fault
	for _, cause := range e.Causes {
		if found = append(found, r.flat(cause)...); len(found) >= maxLeaves {
			break
		}
	}
	return found
}

func eachName(e *jsonschema.ValidationError, names []string, text string) []fault {
	var found []fault
	for _, name := range names[:min(len(names), maxLeaves)] {
		found = append(found, fault{path: append(slices.Clip(e.InstanceLocation), name), text: text, why: e.ErrorKind})
	}
	return found
}

// forbidden is the message of a schema that is false, by the keyword that it stands under.
func forbidden(schemaURL string) string {
	switch keyword := schemaURL[strings.LastIndexByte(schemaURL, '/')+1:]; keyword {
	case "unevaluatedProperties", "additionalProperties":
		return "is not a known argument"
	case "items", "unevaluatedItems":
		return "is one item too many"
	default:
		return "is not allowed"
	}
}

// sentence is what is wrong by one keyword, "" for those that only gather what others found.
func sentence(k jsonschema.ErrorKind) string {
	switch k := k.(type) {
	case *kind.Type:
		return "must be " + oneOfTypes(k.Want) + ", got " + gotType(k)
	case *kind.Enum:
		return oneOfValues(k.Want)
	case *kind.Const:
		return oneOfValues([]any{k.Want})
	case *kind.Format:
		return "is not a valid " + k.Want
	case *kind.Pattern:
		return "does not match pattern '" + k.Want + "'"
	case *kind.MinLength:
		if k.Got == 0 {
			return "must not be empty"
		}
		return fmt.Sprintf("must have at least %s, got %d", count(k.Want, "character"), k.Got)
	case *kind.MaxLength:
		return fmt.Sprintf("must have at most %s, got %d", count(k.Want, "character"), k.Got)
	case *kind.MinItems:
		return fmt.Sprintf("must have at least %s, got %d", count(k.Want, "item"), k.Got)
	case *kind.MaxItems:
		return fmt.Sprintf("must have at most %s, got %d", count(k.Want, "item"), k.Got)
	case *kind.MinProperties:
		return fmt.Sprintf("must have at least %s, got %d", count(k.Want, "property"), k.Got)
	case *kind.MaxProperties:
		return fmt.Sprintf("must have at most %s, got %d", count(k.Want, "property"), k.Got)
	case *kind.UniqueItems:
		return fmt.Sprintf("must not have the same item twice: %d and %d are equal", k.Duplicates[0], k.Duplicates[1])
	case *kind.Minimum:
		return "must be at least " + exact(k.Want)
	case *kind.Maximum:
		return "must be at most " + exact(k.Want)
	case *kind.ExclusiveMinimum:
		return "must be more than " + exact(k.Want)
	case *kind.ExclusiveMaximum:
		return "must be less than " + exact(k.Want)
	case *kind.MultipleOf:
		return "must be a multiple of " + exact(k.Want)
	case *kind.Not:
		return "is what the schema excludes"
	case *kind.RefCycle, *kind.InvalidJsonValue:
		return "can't be checked"
	default:
		return ""
	}
}

// In words: the types of JSON Schema, in the order in which they are listed, null last.
var typeNames = []struct{ name, words string }{
	{"string", "a string"},
	{"integer", "an integer"},
	{"number", "a number"},
	{"boolean", "a boolean"},
	{"array", "a list"},
	{"object", "an object"},
	{"null", "null"},
}

func oneOfTypes(want []string) string {
	var words []string
	for _, t := range typeNames {
		if slices.Contains(want, t.name) && (t.name != "integer" || !slices.Contains(want, "number")) {
			words = append(words, t.words)
		}
	}
	if len(words) < 2 {
		return strings.Join(words, "")
	}
	return strings.Join(words[:len(words)-1], ", ") + " or " + words[len(words)-1]
}

func gotType(k *kind.Type) string {
	if k.Got == "number" && slices.Contains(k.Want, "integer") {
		return "a number with a fraction"
	}
	return oneOfTypes([]string{k.Got})
}

func oneOfValues(values []any) string {
	var words []string
	for _, v := range values {
		word := string(tool.EncodeJSON(v))
		if !slices.Contains(words, word) {
			words = append(words, word)
		}
	}
	if len(words) == 1 {
		return "must be " + words[0]
	}
	return "must be one of " + strings.Join(words, ", ")
}

func count(n int, noun string) string {
	switch {
	case n == 1:
	case strings.HasSuffix(noun, "y"):
		noun = strings.TrimSuffix(noun, "y") + "ies"
	default:
		noun += "s"
	}
	return strconv.Itoa(n) + " " + noun
}

// exact is a number with all its digits, as long as they are not too many.
func exact(r *big.Rat) string {
	const most = 60
	s := r.Num().String()
	if !r.IsInt() {
		digits, finite := r.FloatPrec()
		if !finite || digits > most {
			digits = most
		}
		s = r.FloatString(digits)
	}
	if len(s) > most {
		f, _ := r.Float64()
		s = strconv.FormatFloat(f, 'g', -1, 64)
	}
	return s
}

// texts are the messages of faults without their paths, each once.
func texts(faults []fault) []string {
	var all []string
	for _, f := range faults {
		if !slices.Contains(all, f.text) {
			all = append(all, f.text)
		}
	}
	return all
}

// together is all that is wrong with the value in one line.
func (r reading) together(e *jsonschema.ValidationError) string { return r.oneLine(r.flat(e), 0) }

// oneLine joins faults, with their paths from the depth on.
func (r reading) oneLine(faults []fault, depth int) string {
	var parts []string
	for _, f := range faults {
		text := f.text
		if rest := pathText(r.value, f.path, depth); rest != "" {
			text = rest + ": " + text
		}
		if !slices.Contains(parts, text) {
			parts = append(parts, text)
		}
	}
	slices.Sort(parts) // the library goes through objects in no order
	return strings.Join(parts, ", ")
}
