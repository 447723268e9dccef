// Package measure has what the peers share: time, processor time and memory of this process, and the
// line of JSON that bench/run reads.
package measure

import (
	"encoding/json"
	"fmt"
	"os"
	"strconv"
	"strings"
	"syscall"
	"time"
)

// Section is a stretch of work that is measured.
type Section struct {
	began time.Time
	cpu   float64
}

func Begin() Section { return Section{time.Now(), processorTime()} }

// End gives the seconds, and the processor seconds of all threads, since Begin.
func (s Section) End() (seconds, cpuSeconds float64) {
	return time.Since(s.began).Seconds(), processorTime() - s.cpu
}

func processorTime() float64 {
	var use syscall.Rusage
	if err := syscall.Getrusage(syscall.RUSAGE_SELF, &use); err != nil {
		Fail("%v", err)
	}
	return float64(use.Utime.Nano()+use.Stime.Nano()) / 1e9
}

// Size reads a line "Name:   123 kB" of a file below /proc/self, in bytes.
func Size(file, name string) int64 {
	text, err := os.ReadFile("/proc/self/" + file)
	if err != nil {
		Fail("%v", err)
	}
	for _, line := range strings.Split(string(text), "\n") {
		if rest, found := strings.CutPrefix(line, name+":"); found {
			size, err := strconv.ParseInt(strings.Fields(rest)[0], 10, 64)
			if err != nil {
				Fail("%v", err)
			}
			return size * 1024
		}
	}
	Fail("/proc/self/%s has no %s", file, name)
	return 0
}

// Print writes one line of JSON.
func Print(figures map[string]any) {
	line, err := json.Marshal(figures)
	if err != nil {
		Fail("%v", err)
	}
	fmt.Println(string(line))
}

// Fail ends the process: a measurement with failures in it is none.
func Fail(format string, args ...any) {
	fmt.Fprintf(os.Stderr, "bench: "+format+"\n", args...)
	os.Exit(1)
}
