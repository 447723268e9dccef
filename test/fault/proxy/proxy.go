package main

import (
	"bytes"
	"context"
	"encoding/json"
	"fmt"
	"io"
	"net"
	"net/http"
	"net/url"
	"slices"
	"strconv"
	"strings"
	"sync"
	"time"
)

// Write is what became of one request that writes.
type Write struct {
	Target
	Manager   string  `json:"manager"`
	Status    int     `json:"status"`    // of the server; 0: it was never asked
	Effective bool    `json:"effective"` // something changed
	Fault     string  `json:"fault"`     // the action of the rule that met it
	Seconds   float64 `json:"seconds"`   // since the proxy began
}

// Proxy stands between an operator and an API server.
type Proxy struct {
	upstream *url.URL
	token    string
	client   *http.Client
	jsonOnly bool // watches and lists are asked for as JSON
	page     int  // objects a page of a list; 0: as the client asks
	began    time.Time

	mutex   sync.Mutex
	rules   []*Rule
	record  []*Write
	watches map[*watch]bool
	holding map[string]string // resource -> mode, also for watches that come later
	stopped bool
	gate    chan struct{} // closed: open
	lists   int
}

func newProxy(upstream *url.URL, token string, client *http.Client) *Proxy {
	open := make(chan struct{})
	close(open)
	return &Proxy{upstream: upstream, token: token, client: client, began: time.Now(), watches: map[*watch]bool{},
		holding: map[string]string{}, gate: open}
}

type connKey struct{}

// withConnection remembers the connection of a request, so that it can be cut: HTTP/2 has no other way.
func withConnection(ctx context.Context, c net.Conn) context.Context {
	return context.WithValue(ctx, connKey{}, c)
}

func cutConnection(r *http.Request) {
	if c, is := r.Context().Value(connKey{}).(net.Conn); is {
		c.Close()
	}
	panic(http.ErrAbortHandler)
}

func (p *Proxy) pick(t Target, afterwards, effective bool) *Rule {
	p.mutex.Lock()
	defer p.mutex.Unlock()
	return pick(p.rules, t, afterwards, effective)
}

// pass says whether a request may go on. One that comes while everything is stopped never does: it
// waits until its client is gone or the gate is opened, which is done when the client is dead.
func (p *Proxy) pass(ctx context.Context) bool {
	p.mutex.Lock()
	gate := p.gate
	p.mutex.Unlock()
	select {
	case <-gate:
		return true
	default:
	}
	select {
	case <-gate:
	case <-ctx.Done():
	}
	return false
}

func (p *Proxy) stop() {
	p.mutex.Lock()
	defer p.mutex.Unlock()
	p.stopped = true
	p.gate = make(chan struct{})
}

func (p *Proxy) open() {
	p.mutex.Lock()
	defer p.mutex.Unlock()
	if p.stopped {
		p.stopped = false
		close(p.gate)
	}
}

func (p *Proxy) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	if !p.pass(r.Context()) {
		panic(http.ErrAbortHandler)
	}
	t := targetOf(r)
	rule := p.pick(t, false, false)
	if rule != nil {
		switch rule.Action {
		case actAnswer:
			p.note(r, t, 0, false, rule.Action)
			answer(w, rule)
			return
		case actHang:
			p.note(r, t, 0, false, rule.Action)
			var over <-chan time.Time
			if rule.Millis > 0 {
				over = time.After(rule.delay())
			}
			select {
			case <-over:
			case <-r.Context().Done():
			}
			cutConnection(r)
		}
	}
	if t.writes() {
		p.write(w, r, t, rule)
	} else {
		p.read(w, r, t, rule)
	}
}

func answer(w http.ResponseWriter, rule *Rule) {
	if rule.RetryAfter > 0 {
		w.Header().Set("Retry-After", strconv.Itoa(rule.RetryAfter))
	}
	w.Header().Set("Content-Type", "application/json")
	w.WriteHeader(rule.Code)
	json.NewEncoder(w).Encode(map[string]any{"kind": "Status", "apiVersion": "v1", "metadata": map[string]any{},
		"status": "Failure", "message": "a fault on purpose", "reason": rule.Reason, "code": rule.Code})
}

func (p *Proxy) note(r *http.Request, t Target, status int, effective bool, fault string) {
	if !t.writes() {
		return
	}
	p.mutex.Lock()
	defer p.mutex.Unlock()
	p.record = append(p.record, &Write{Target: t, Manager: r.URL.Query().Get("fieldManager"), Status: status,
		Effective: effective, Fault: fault, Seconds: time.Since(p.began).Seconds()})
}

// forward asks the server. Without the client's context a write is carried to its end.
func (p *Proxy) forward(ctx context.Context, r *http.Request, body io.Reader) (*http.Response, error) {
	target := *p.upstream
	target.Path, target.RawPath, target.RawQuery = r.URL.Path, r.URL.RawPath, r.URL.RawQuery
	request, err := http.NewRequestWithContext(ctx, r.Method, target.String(), body)
	if err != nil {
		return nil, err
	}
	for name, values := range r.Header {
		if !strings.EqualFold(name, "Connection") && !strings.EqualFold(name, "Accept-Encoding") {
			request.Header[name] = values
		}
	}
	request.Header.Set("Accept-Encoding", "identity")
	return p.client.Do(request)
}

func (p *Proxy) write(w http.ResponseWriter, r *http.Request, t Target, rule *Rule) {
	body, err := io.ReadAll(r.Body)
	if err != nil {
		panic(http.ErrAbortHandler)
	}
	if t.Verb == "create" {
		t.Name = nameIn(body)
	}
	before := ""
	if t.Verb == "update" || t.Verb == "patch" {
		before = p.version(r, t)
	}
	response, err := p.forward(context.WithoutCancel(r.Context()), r, bytes.NewReader(body))
	if err != nil {
		p.note(r, t, 0, false, "unreachable")
		cutConnection(r)
	}
	said, err := io.ReadAll(response.Body)
	response.Body.Close()
	if err != nil {
		p.note(r, t, response.StatusCode, false, "unreachable")
		cutConnection(r)
	}
	effective := response.StatusCode < 300 && r.URL.Query().Get("dryRun") == ""
	if effective && before != "" {
		after := versionIn(said)
		if !isJSON(response.Header) {
			after = p.version(r, t)
		}
		effective = after != before
	}
	after := p.pick(t, true, effective)
	fault := ""
	if after != nil {
		fault = after.Action
	} else if rule != nil {
		fault = rule.Action
	}
	p.note(r, t, response.StatusCode, effective, fault)
	if fault == actStopBefore || fault == actStopAfter {
		p.stop()
	}
	switch fault {
	case actLose:
		cutConnection(r)
	case actStopBefore:
		p.pass(r.Context())
		cutConnection(r)
	}
	p.reply(w, r, response, said, rule)
}

// reply passes an answer on that has been read.
func (p *Proxy) reply(w http.ResponseWriter, r *http.Request, response *http.Response, said []byte, rule *Rule) {
	if rule != nil && rule.Action == actSlow {
		time.Sleep(rule.delay())
	}
	copyHead(w, response)
	if rule != nil && rule.Action == actTruncate {
		w.Write(said[:len(said)/2])
		flush(w)
		cutConnection(r)
	}
	w.Write(said)
	flush(w)
}

func (p *Proxy) read(w http.ResponseWriter, r *http.Request, t Target, rule *Rule) {
	if p.jsonOnly && t.Resource != "" && (t.Verb == "watch" || t.Verb == "list") {
		accept := "application/json"
		if strings.Contains(r.Header.Get("Accept"), "as=PartialObjectMetadata") {
			accept = "application/json;as=PartialObjectMetadata;g=meta.k8s.io;v=v1"
			if t.Verb == "list" {
				accept = "application/json;as=PartialObjectMetadataList;g=meta.k8s.io;v=v1"
			}
		}
		r.Header.Set("Accept", accept)
	}
	if p.page > 0 && t.Verb == "list" {
		query := r.URL.Query()
		query.Set("limit", strconv.Itoa(p.page))
		r.URL.RawQuery = query.Encode()
	}
	if t.Verb == "list" {
		p.mutex.Lock()
		p.lists++
		p.mutex.Unlock()
	}
	response, err := p.forward(r.Context(), r, r.Body)
	if err != nil {
		cutConnection(r)
	}
	defer response.Body.Close()
	if t.Verb == "watch" && response.StatusCode == http.StatusOK {
		p.stream(w, r, t, response, rule)
		return
	}
	said, err := io.ReadAll(response.Body)
	if err != nil {
		cutConnection(r)
	}
	p.reply(w, r, response, said, rule)
}

func (p *Proxy) stream(w http.ResponseWriter, r *http.Request, t Target, response *http.Response, rule *Rule) {
	copyHead(w, response)
	flush(w)
	s := &watch{target: t, lines: isJSON(response.Header), from: r.URL.Query().Get("resourceVersion"), out: w,
		end: make(chan struct{}), known: map[string]bool{}}
	if rule != nil {
		s.half = rule.Action == actTruncate
		if rule.Action == actSlow {
			s.slow = rule.delay()
		}
	}
	p.mutex.Lock()
	p.watches[s] = true
	mode, one := p.holding[t.Resource]
	if !one {
		mode = p.holding[""]
	}
	if !t.initial { // whoever asks for what exists must get it
		s.mode = mode
	}
	p.mutex.Unlock()
	err := s.run(response.Body)
	p.mutex.Lock()
	delete(p.watches, s)
	p.mutex.Unlock()
	if err != nil {
		panic(http.ErrAbortHandler)
	}
}

func copyHead(w http.ResponseWriter, response *http.Response) {
	for name, values := range response.Header {
		if name != "Content-Length" && name != "Connection" && name != "Transfer-Encoding" {
			w.Header()[name] = values
		}
	}
	w.WriteHeader(response.StatusCode)
}

// version asks the server for the version of a write's object.
func (p *Proxy) version(r *http.Request, t Target) string {
	target := *p.upstream
	target.Path = strings.TrimSuffix(r.URL.Path, "/"+t.Subresource)
	if t.Subresource == "" {
		target.Path = r.URL.Path
	}
	request, err := http.NewRequestWithContext(context.WithoutCancel(r.Context()), http.MethodGet, target.String(), nil)
	if err != nil {
		return ""
	}
	request.Header.Set("Accept", "application/json;as=PartialObjectMetadata;g=meta.k8s.io;v=v1")
	request.Header.Set("Authorization", "Bearer "+p.token)
	response, err := p.client.Do(request)
	if err != nil {
		return ""
	}
	defer response.Body.Close()
	said, _ := io.ReadAll(response.Body)
	return versionIn(said)
}

type metadataOnly struct {
	Metadata struct {
		Name            string `json:"name"`
		GenerateName    string `json:"generateName"`
		ResourceVersion string `json:"resourceVersion"`
	} `json:"metadata"`
}

func versionIn(body []byte) string {
	var m metadataOnly
	json.Unmarshal(body, &m)
	return m.Metadata.ResourceVersion
}

// nameIn is empty for what is not JSON: built-in kinds of the Go peers. Then all of a kind count as one.
func nameIn(body []byte) string {
	var m metadataOnly
	json.Unmarshal(body, &m)
	if m.Metadata.Name == "" && m.Metadata.GenerateName != "" {
		return m.Metadata.GenerateName + "*"
	}
	return m.Metadata.Name
}

// ---------------------------------------------------------------------------------------------
// The control side: what the driver of a test says and asks

func (p *Proxy) control() http.Handler {
	mux := http.NewServeMux()
	tell := func(w http.ResponseWriter, value any) {
		w.Header().Set("Content-Type", "application/json")
		json.NewEncoder(w).Encode(value)
	}
	// The rules from now on, in place of those before.
	mux.HandleFunc("PUT /rules", func(w http.ResponseWriter, r *http.Request) {
		var rules []*Rule
		decoder := json.NewDecoder(r.Body)
		decoder.DisallowUnknownFields()
		if err := decoder.Decode(&rules); err != nil {
			http.Error(w, err.Error(), http.StatusBadRequest)
			return
		}
		for _, rule := range rules {
			if !slices.Contains([]string{actAnswer, actHang, actSlow, actTruncate, actLose, actStopBefore, actStopAfter}, rule.Action) {
				http.Error(w, fmt.Sprintf("no action %q", rule.Action), http.StatusBadRequest)
				return
			}
		}
		p.mutex.Lock()
		p.rules = rules
		p.mutex.Unlock()
		tell(w, len(rules))
	})
	mux.HandleFunc("GET /state", func(w http.ResponseWriter, r *http.Request) {
		p.mutex.Lock()
		defer p.mutex.Unlock()
		hits, idle := 0, 0
		for _, rule := range p.rules {
			hits += rule.hits
			if rule.hits == 0 {
				idle++
			}
		}
		kinds := map[string]int{}
		for s := range p.watches {
			kinds[s.target.Resource]++
		}
		tell(w, map[string]any{"stopped": p.stopped, "hits": hits, "idle": idle, "writes": len(p.record), "watches": kinds, "lists": p.lists})
	})
	mux.HandleFunc("GET /record", func(w http.ResponseWriter, r *http.Request) {
		p.mutex.Lock()
		defer p.mutex.Unlock()
		from, _ := strconv.Atoi(r.URL.Query().Get("from"))
		tell(w, p.record[min(from, len(p.record)):])
	})
	mux.HandleFunc("POST /open", func(w http.ResponseWriter, r *http.Request) {
		p.open()
		tell(w, true)
	})
	// Watches of a resource (all without one) fall silent.
	mux.HandleFunc("POST /hold", func(w http.ResponseWriter, r *http.Request) {
		query := r.URL.Query()
		mode := query.Get("mode")
		if mode == "" {
			mode = holdSilent
		}
		p.mutex.Lock()
		p.holding[query.Get("resource")] = mode
		p.mutex.Unlock()
		tell(w, p.each(query.Get("resource"), func(s *watch) { s.hold(mode) }))
	})
	// They tell the last states and go on, or end: how=last|cut|gone.
	mux.HandleFunc("POST /release", func(w http.ResponseWriter, r *http.Request) {
		query := r.URL.Query()
		p.mutex.Lock()
		delete(p.holding, query.Get("resource"))
		p.mutex.Unlock()
		tell(w, p.each(query.Get("resource"), func(s *watch) {
			if how := query.Get("how"); how == "last" {
				s.release()
			} else {
				s.cut(how == "gone")
			}
		}))
	})
	return mux
}

func (p *Proxy) each(resource string, what func(*watch)) int {
	p.mutex.Lock()
	var chosen []*watch
	for s := range p.watches {
		if s.matches(resource) {
			chosen = append(chosen, s)
		}
	}
	p.mutex.Unlock()
	for _, s := range chosen {
		what(s)
	}
	return len(chosen)
}
