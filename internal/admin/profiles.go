package admin

import (
	"bytes"
	"fmt"
	"net/http"
	"net/http/pprof"
	"strconv"
	"time"

	runtimepprof "runtime/pprof"
)

// Bounds of a CPU profile, in seconds.
const (
	profileSeconds = 30 // default duration
	profileMost    = 3600
)

// addProfiles adds Go's profiles. A profile takes as long as requested, longer than the deadlines of
// the other pages.
func addProfiles(mux *http.ServeMux) {
	for pattern, handle := range map[string]http.HandlerFunc{
		"": pprof.Index, "cmdline": pprof.Cmdline, "trace": pprof.Trace, "profile": serveProfile,
	} {
		mux.HandleFunc("GET /debug/pprof/"+pattern, func(w http.ResponseWriter, r *http.Request) {
			c := http.NewResponseController(w)
			// A connection without deadlines needs no change.
			_, _ = c.SetReadDeadline(time.Time{}), c.SetWriteDeadline(time.Time{})
			handle(w, r)
		})
	}
}

// serveProfile sends a CPU profile. The response header is sent when it begins. It ends after the
// requested seconds, or when the client closes its half of the connection; the client then gets the
// profile so far.
func serveProfile(w http.ResponseWriter, r *http.Request) {
	seconds := profileSeconds
	if text := r.FormValue("seconds"); text != "" {
		n, err := strconv.Atoi(text)
		if err != nil || n < 1 || n > profileMost {
			respond(w, http.StatusBadRequest, fmt.Sprintf("seconds is %.20q, want a whole number from 1 to %d", text, profileMost))
			return
		}
		seconds = n
	}
	var profile bytes.Buffer
	if err := runtimepprof.StartCPUProfile(&profile); err != nil {
		respond(w, http.StatusConflict, "a CPU profile is running; retry once it has ended")
		return
	}
	w.Header().Set("Content-Type", "application/octet-stream")
	w.Header().Set("Content-Disposition", `attachment; filename="profile"`)
	w.Header().Set("X-Content-Type-Options", "nosniff")
	w.WriteHeader(http.StatusOK)
	_ = http.NewResponseController(w).Flush() // A client that is gone has closed the connection.
	end := time.NewTimer(time.Duration(seconds) * time.Second)
	defer end.Stop()
	select {
	case <-end.C:
	case <-r.Context().Done():
	}
	runtimepprof.StopCPUProfile()
	_, _ = w.Write(profile.Bytes()) // a failed write means that the client left
}
