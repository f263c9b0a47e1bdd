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

// Bounds of a profile of the processor, in seconds.
const (
	profileSeconds = 30 // Unless the request says otherwise.
	profileMost    = 3600
)

// addProfiles adds Go's own profiles. A profile takes as long as was asked for, which the
// deadlines of the other pages do not allow.
func addProfiles(mux *http.ServeMux) {
	for pattern, handle := range map[string]http.HandlerFunc{
		"": pprof.Index, "cmdline": pprof.Cmdline, "trace": pprof.Trace, "profile": serveProfile,
	} {
		mux.HandleFunc("GET /debug/pprof/"+pattern, func(w http.ResponseWriter, r *http.Request) {
			c := http.NewResponseController(w)
			// Where there are none to lift, there are none.
			_, _ = c.SetReadDeadline(time.Time{}), c.SetWriteDeadline(time.Time{})
			handle(w, r)
		})
	}
}

// serveProfile answers with a profile of the processor. Its header says that it has begun.
// It ends after the seconds of the request, or as soon as the client closes its half of
// the connection: then the client gets the profile of what it has waited for.
func serveProfile(w http.ResponseWriter, r *http.Request) {
	seconds := profileSeconds
	if text := r.FormValue("seconds"); text != "" {
		n, err := strconv.Atoi(text)
		if err != nil || n < 1 || n > profileMost {
			say(w, http.StatusBadRequest, fmt.Sprintf("seconds is %.20q, want a whole number from 1 to %d", text, profileMost))
			return
		}
		seconds = n
	}
	var profile bytes.Buffer
	if err := runtimepprof.StartCPUProfile(&profile); err != nil {
		say(w, http.StatusConflict, "a profile of the processor is under way; ask again when it has ended")
		return
	}
	w.Header().Set("Content-Type", "application/octet-stream")
	w.Header().Set("Content-Disposition", `attachment; filename="profile"`)
	w.Header().Set("X-Content-Type-Options", "nosniff")
	w.WriteHeader(http.StatusOK)
	_ = http.NewResponseController(w).Flush() // Who is gone has closed the connection.
	end := time.NewTimer(time.Duration(seconds) * time.Second)
	defer end.Stop()
	select {
	case <-end.C:
	case <-r.Context().Done():
	}
	runtimepprof.StopCPUProfile()
	_, _ = w.Write(profile.Bytes()) // Who hung up does not need it.
}
