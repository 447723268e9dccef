package main

import "time"

// Rule says what goes wrong, and when. Of those that are met by a request the first acts.
type Rule struct {
	Verbs       []string `json:"verbs"`       // empty: all
	Resource    string   `json:"resource"`    // empty: all
	Name        string   `json:"name"`        // empty: all
	Subresource *string  `json:"subresource"` // null: all
	Initial     *bool    `json:"initial"`     // of watches: those that ask for what exists first; null: all
	Effective   bool     `json:"effective"`   // only writes that changed something; for what happens after them
	PerObject   bool     `json:"perObject"`   // Skip and Times count for each object by itself
	Skip        int      `json:"skip"`        // so many matches are let through first
	Times       int      `json:"times"`       // then so many are met; 0: all
	Action      string   `json:"action"`
	Code        int      `json:"code"` // answer
	Reason      string   `json:"reason"`
	RetryAfter  int      `json:"retryAfter"`
	Millis      int      `json:"millis"` // hang, slow

	hits int
	seen map[string]int
}

// What can be done to a request.
const (
	// Instead of forwarding it:
	actAnswer = "answer" // with a Status of Code and Reason
	actHang   = "hang"   // no answer for Millis, then the connection is cut; 0: until the client gives up
	// Around forwarding it:
	actSlow     = "slow"     // Millis before every piece of the answer
	actTruncate = "truncate" // half of the answer, or of a watch's first event, then the connection is cut
	actLose     = "lose"     // the write is done, but instead of its answer the connection is cut
	// The write is done and everything stops until the gate is opened:
	actStopBefore = "stop-before" // its answer is not passed on
	actStopAfter  = "stop-after"  // its answer is the last thing passed on
)

func (r *Rule) afterwards() bool {
	return r.Action == actLose || r.Action == actStopBefore || r.Action == actStopAfter
}

func (r *Rule) concerns(t Target) bool {
	if t.Resource == "" || (r.Resource != "" && r.Resource != t.Resource) || (r.Name != "" && r.Name != t.Name) {
		return false
	}
	if r.Subresource != nil && *r.Subresource != t.Subresource {
		return false
	}
	if r.Initial != nil && *r.Initial != t.initial {
		return false
	}
	for _, verb := range r.Verbs {
		if verb == t.Verb {
			return true
		}
	}
	return len(r.Verbs) == 0
}

// meets counts a match, and says whether it is one of those that are met.
func (r *Rule) meets(t Target) bool {
	key := ""
	if r.PerObject {
		key = t.object()
	}
	if r.seen == nil {
		r.seen = map[string]int{}
	}
	r.seen[key]++
	n := r.seen[key]
	return n > r.Skip && (r.Times == 0 || n <= r.Skip+r.Times)
}

func (r *Rule) delay() time.Duration { return time.Duration(r.Millis) * time.Millisecond }

// pick finds the rule that acts on a request, if any; all that match count it. Called twice for a
// write: before it is forwarded, and after it.
func pick(rules []*Rule, t Target, afterwards, effective bool) *Rule {
	var chosen *Rule
	for _, rule := range rules {
		if rule.afterwards() != afterwards || !rule.concerns(t) || (rule.Effective && !effective) {
			continue
		}
		if rule.meets(t) && chosen == nil {
			chosen = rule
			chosen.hits++
		}
	}
	return chosen
}
