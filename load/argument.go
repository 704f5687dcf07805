package load

import (
	"cmp"
	"fmt"
	"reflect"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"time"

	"hclbench/plain"
)

// Argument is one argument of a load or of its data set, a row of [Arguments] or [DatasetArguments]. The
// language's blocks, the flags of hcl bench, the checks, the fingerprint and the words of a plan are made from
// the rows: a new argument is a field, its row, and the code that uses it.
type Argument[N Workload | Dataset] struct {
	Name  string       // in a lab and in a [FieldError]
	Field func(*N) any // a pointer to the value, of which zero means that nobody has said it
	Place Place        // where a lab says it

	Least float64  // of a number that is said, and of a duration in nanoseconds
	Most  float64  // 0: no limit
	Words []string // the only texts that it may be; nil: any
	Form  TextForm // of a text
	Off   bool     // the field is true where a lab says false

	Needed  []string // the kinds of data sets that make no prompts without it
	May     []string // and the other kinds that it means something to
	Hint    string   // what it is, for whoever has left out one that is needed
	Default string   // what such a data set has where nobody says it

	Flag    string // of hcl bench, where it is another than the name with dashes
	Help    string // of the flag; empty: there is none
	FlagOff bool   // the flag says the opposite of what a lab says

	Paces bool // it says when requests are sent, which recorded times say themselves
	// a search for a capacity says it itself, or has no use for it
	Searched bool
	Batched  bool // a [Batch] has it; the others have no effect offline
	// whether it means something to the endpoint; nil: to all
	at func(endpoint) bool
	// why it has no effect beside the others, without its name; empty: it has
	idle func(*N) string

	key    string          // in a fingerprint, where it is another than the name
	same   any             // the value that means what zero means
	counts func(*N) string // what a fingerprint has of it, where that is not the value; empty: nothing
	phrase string          // what a plan says of it, with the value in the place of %v
	// what a plan says, where that is no phrase, and where it is said that it is not so
	words, otherwise func(*N) string
}

// Place is where a lab says an argument.
type Place int

// The places.
const (
	InBlock     Place = iota // in the load block, or in that of the data set
	InBenchmark              // in the benchmark block
	Elsewhere                // in a block of its own, or hcl finds it
)

// TextForm is what a text has to be.
type TextForm int

// The forms.
const (
	AnyText    TextForm = iota
	SHA256Text          // 64 hex digits
	ObjectText          // a JSON object
)

var digest = regexp.MustCompile(`^[0-9a-fA-F]{64}$`)

// FlagName is the argument's flag of hcl bench, without dashes before it.
func (a Argument[N]) FlagName() string { return cmp.Or(a.Flag, strings.ReplaceAll(a.Name, "_", "-")) }

// FlagOf is the flag of hcl bench for the field of a [FieldError]: "--think-time" for "dataset.think_time".
func FlagOf(field string) string {
	for _, a := range arguments {
		if field == a.Name {
			return "--" + a.FlagName()
		}
	}
	for _, a := range datasetArguments {
		if field == "dataset."+a.Name {
			return "--" + a.FlagName()
		}
	}
	return "--dataset" // its kind
}

// Has reports whether the argument means something to a kind of data set.
func (a Argument[N]) Has(kind string) bool {
	return slices.Contains(a.Needed, kind) || slices.Contains(a.May, kind)
}

// Kinds are the kinds of data sets that the argument means something to, as help names them: "a, b and c".
func (a Argument[N]) Kinds() string {
	return plain.List(slices.DeleteFunc(DatasetKinds(), func(k string) bool { return !a.Has(k) }), "and")
}

// Idle says why the argument has no effect beside the others: a sentence to which the name is missing at its
// beginning. Empty: it has an effect.
func (a Argument[N]) Idle(n *N) string {
	if a.idle == nil {
		return ""
	}
	return a.idle(n)
}

func (a Argument[N]) value(n *N) reflect.Value { return reflect.ValueOf(a.Field(n)).Elem() }

// Copy gives one noun the argument's value of another.
func (a Argument[N]) Copy(to, from *N) { a.value(to).Set(a.value(from)) }

// isSet reports whether a value says something.
func isSet(v reflect.Value) bool {
	if v.Kind() == reflect.Slice {
		return v.Len() > 0
	}
	return !v.IsZero()
}

// check holds the value against its bounds.
func (a Argument[N]) check(p *problems, n *N, field string, needed bool) {
	v := reflect.Indirect(a.value(n))
	var x float64
	switch {
	case !v.IsValid():
		return // nil
	case v.Kind() == reflect.String:
		s := v.String()
		p.add(s != "" && a.Words != nil && !slices.Contains(a.Words, s), field, "%q: write one of %s", s, plain.List(a.Words, "or"))
		p.add(s != "" && a.Form == SHA256Text && !digest.MatchString(s), field, "%q is not a SHA-256 in 64 hex digits", s)
		return
	case v.CanInt():
		x = float64(v.Int())
	case v.CanUint():
		x = float64(v.Uint())
	case v.CanFloat():
		x = v.Float()
	default:
		return
	}
	limit := func(x float64) string {
		if v.Type() == reflect.TypeFor[Duration]() {
			return time.Duration(x).String()
		}
		return strconv.FormatFloat(x, 'f', -1, 64)
	}
	switch {
	case !(x >= 0):
		p.add(true, field, "%v: it cannot be a negative number", v)
	case x < a.Least && (needed || x != 0):
		p.add(true, field, "%v: at least %s is needed", v, limit(a.Least))
	case a.Most != 0 && x > a.Most:
		p.add(true, field, "%v: at most %s is possible", v, limit(a.Most))
	}
}

// isChanged reports whether the value is another than the one that holds anyway.
func (a Argument[N]) isChanged(v reflect.Value) bool {
	return isSet(v) && (a.same == nil || reflect.Indirect(v).Interface() != a.same)
}

// counted is what a fingerprint has of the value; empty: nothing.
func (a Argument[N]) counted(n *N) string {
	switch v := a.value(n); {
	case a.counts != nil:
		return a.counts(n)
	case a.isChanged(v):
		return fmt.Sprint(reflect.Indirect(v))
	}
	return ""
}

// wordsOf is what a plan says of arguments: as many words for every noun, of which empty ones say nothing.
func wordsOf[N Workload | Dataset](all []Argument[N], n *N) []string {
	words := make([]string, len(all))
	for i, a := range all {
		switch v := a.value(n); {
		case !a.isChanged(v) && a.otherwise != nil:
			words[i] = a.otherwise(n)
		case !a.isChanged(v):
		case a.words != nil:
			words[i] = a.words(n)
		default:
			words[i] = strings.Replace(a.phrase, "%v", fmt.Sprint(v), 1)
		}
	}
	return words
}

const (
	maxTokens    = 1 << 24 // of any length that is asked for
	maxGroups    = 1 << 20
	maxInFlight  = 1_000_000
	maxRequests  = 1 << 30
	maxTurns     = 10_000 // of a conversation, or session, that is made, and its requests
	maxCalls     = 1000   // what an agent does in a turn
	maxBatch     = 4096   // more than any server takes in one request: hosted ones take 2,048 prompts
	shortest     = float64(time.Millisecond)
	longestRun   = float64(365 * 24 * time.Hour) // more than anybody waits for, and countable in nanoseconds
	longestPause = float64(24 * time.Hour)       // more than any server keeps a prefix for
)
