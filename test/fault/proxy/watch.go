package main

import (
	"bufio"
	"bytes"
	"encoding/json"
	"errors"
	"io"
	"net/http"
	"strings"
	"sync"
	"time"
)

// event is what must be known of a line of a watch.
type event struct {
	Type   string `json:"type"`
	Object struct {
		Kind       string `json:"kind"`
		APIVersion string `json:"apiVersion"`
		Metadata   struct {
			Name            string `json:"name"`
			Namespace       string `json:"namespace"`
			ResourceVersion string `json:"resourceVersion"`
		} `json:"metadata"`
	} `json:"object"`
	raw []byte // of the object
}

func (e event) key() string { return e.Object.Metadata.Namespace + "/" + e.Object.Metadata.Name }

func parseEvent(line []byte) (event, error) {
	var e event
	if err := json.Unmarshal(line, &e); err != nil {
		return e, err
	}
	var whole struct {
		Object json.RawMessage `json:"object"`
	}
	err := json.Unmarshal(line, &whole)
	e.raw = whole.Object
	return e, err
}

// lastStates is what a watch that was held says of what happened meanwhile: one event for each
// object, as if nothing else had been. `known` are the objects that the client has seen.
func lastStates(held []event, known map[string]bool) [][]byte {
	last := map[string]event{}
	var order []string
	for _, e := range held {
		if _, there := last[e.key()]; !there {
			order = append(order, e.key())
		}
		last[e.key()] = e
	}
	var lines [][]byte
	for _, key := range order {
		e := last[key]
		kind := e.Type
		if kind == "DELETED" && !known[key] {
			continue
		}
		if kind != "DELETED" {
			kind = "ADDED"
			if known[key] {
				kind = "MODIFIED"
			}
		}
		lines = append(lines, []byte(`{"type":"`+kind+`","object":`+string(e.raw)+"}\n"))
	}
	return lines
}

// watch is one stream of events on its way to the client. What arrives while it is held is kept
// (JSON) or thrown away (else); then only a cut or an end helps.
type watch struct {
	target Target
	lines  bool // JSON: one event a line
	from   string

	mutex  sync.Mutex
	out    http.ResponseWriter
	over   bool
	end    chan struct{} // closed to cut the stream
	mode   string        // how it is held; empty: it is not
	held   []event
	known  map[string]bool
	last   event // the last that was passed on; its version is where the client is
	passed int
	slow   time.Duration
	half   bool // cut in the middle of the first event
}

var errCut = errors.New("cut by a rule")

// Ways to hold.
const (
	holdSilent    = "silent"
	holdBookmarks = "bookmarks" // meanwhile bookmarks come, all of the place where the client is
)

func (w *watch) matches(resource string) bool { return resource == "" || w.target.Resource == resource }

func (w *watch) send(line []byte) error {
	if w.over {
		return errCut
	}
	if w.slow > 0 {
		time.Sleep(w.slow)
	}
	if w.half {
		w.out.Write(line[:len(line)/2])
		flush(w.out)
		return errCut
	}
	if _, err := w.out.Write(line); err != nil {
		return err
	}
	w.passed++
	flush(w.out)
	return nil
}

func (w *watch) take(line []byte) error {
	w.mutex.Lock()
	defer w.mutex.Unlock()
	if !w.lines {
		if w.mode != "" {
			return nil
		}
		return w.send(line)
	}
	e, err := parseEvent(line)
	if err != nil || e.Type == "ERROR" {
		return w.send(line)
	}
	if w.mode != "" {
		if e.Type != "BOOKMARK" { // it would tell of a place that the client has not reached
			w.held = append(w.held, e)
		}
		return nil
	}
	w.saw(e)
	return w.send(line)
}

func (w *watch) saw(e event) {
	w.last = e
	switch e.Type {
	case "BOOKMARK":
	case "DELETED":
		delete(w.known, e.key())
	default:
		w.known[e.key()] = true
	}
}

func (w *watch) hold(mode string) {
	w.mutex.Lock()
	defer w.mutex.Unlock()
	w.mode = mode
	if mode == holdBookmarks && w.lines && w.last.Object.Metadata.ResourceVersion != "" {
		go w.bookmark()
	}
}

func (w *watch) bookmark() {
	for {
		w.mutex.Lock()
		if w.over || w.mode != holdBookmarks {
			w.mutex.Unlock()
			return
		}
		o := w.last.Object
		line := `{"type":"BOOKMARK","object":{"kind":"` + o.Kind + `","apiVersion":"` + o.APIVersion +
			`","metadata":{"resourceVersion":"` + o.Metadata.ResourceVersion + `","creationTimestamp":null}}}` + "\n"
		w.send([]byte(line))
		w.mutex.Unlock()
		time.Sleep(100 * time.Millisecond)
	}
}

// release tells the last state of what happened, and goes on.
func (w *watch) release() {
	w.mutex.Lock()
	defer w.mutex.Unlock()
	w.mode = ""
	for _, line := range lastStates(w.held, w.known) {
		if w.send(line) != nil {
			break
		}
	}
	for _, e := range w.held {
		w.saw(e)
	}
	w.held = nil
}

// cut ends the stream, with an ERROR event first when `gone`.
func (w *watch) cut(gone bool) {
	w.mutex.Lock()
	defer w.mutex.Unlock()
	if w.over {
		return
	}
	if gone && w.lines {
		w.send([]byte(`{"type":"ERROR","object":{"kind":"Status","apiVersion":"v1","metadata":{},"status":"Failure",` +
			`"message":"too old resource version","reason":"Expired","code":410}}` + "\n"))
	}
	w.over = true
	close(w.end)
}

// run passes the stream on until either side ends it. Tells whether it ended well.
func (w *watch) run(body io.ReadCloser) error {
	defer func() {
		w.mutex.Lock()
		w.over = true
		w.mutex.Unlock()
	}()
	failed := make(chan error, 1)
	go func() { failed <- w.pump(body) }()
	select {
	case err := <-failed:
		return err
	case <-w.end:
		body.Close()
		<-failed
		return errCut
	}
}

func (w *watch) pump(body io.Reader) error {
	if w.lines {
		reader := bufio.NewReaderSize(body, 1<<16)
		for {
			line, err := reader.ReadBytes('\n')
			if len(bytes.TrimSpace(line)) > 0 && err == nil {
				err = w.take(line)
			}
			if err == io.EOF {
				return nil
			}
			if err != nil {
				return err
			}
		}
	}
	piece := make([]byte, 1<<16)
	for {
		n, err := body.Read(piece)
		if n > 0 {
			if failed := w.take(piece[:n]); failed != nil {
				return failed
			}
		}
		if err == io.EOF {
			return nil
		}
		if err != nil {
			return err
		}
	}
}

func isJSON(header http.Header) bool {
	return strings.HasPrefix(header.Get("Content-Type"), "application/json")
}

func flush(w http.ResponseWriter) {
	if f, can := w.(http.Flusher); can {
		f.Flush()
	}
}
