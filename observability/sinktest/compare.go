package sinktest

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"reflect"

	"github.com/google/go-cmp/cmp"

	"github.com/parleyrun/parley/observability"
)

// maxDifferences is the number of events shown.
const maxDifferences = 3

// holds returns how the store differs from the events, in any order.
func (s *store) holds(want []observability.Event) error {
	read := s.read()
	got := make(map[string]*observability.Event, len(read))
	var errs []error
	for i := range read {
		id := read[i].ID
		if got[id] != nil {
			errs = append(errs, fmt.Errorf("event %s is stored twice", id))
		}
		got[id] = &read[i]
	}
	for i := range want {
		stored := got[want[i].ID]
		delete(got, want[i].ID)
		if stored == nil {
			errs = append(errs, fmt.Errorf("event %s is not stored", want[i].ID))
		} else if err := same(stored, &want[i]); err != nil {
			errs = append(errs, err)
		}
	}
	for id := range got {
		errs = append(errs, fmt.Errorf("event %s is stored, but was not written", id))
	}
	if len(errs) > maxDifferences {
		errs = append(errs[:maxDifferences:maxDifferences], fmt.Errorf("and %d more differences", len(errs)-maxDifferences))
	}
	return errors.Join(errs...)
}

// same compares events in JSON, where a nil map is an empty one and invalid UTF-8 is U+FFFD.
func same(got, want *observability.Event) error {
	if reflect.DeepEqual(got, want) {
		return nil // Fast path.
	}
	g, err := got.AppendJSON(nil)
	if err != nil {
		return fmt.Errorf("stored event %s: %w", want.ID, err)
	}
	w, err := want.AppendJSON(nil)
	if err != nil {
		return err
	}
	if bytes.Equal(g, w) {
		return nil
	}
	// The members of arbitrary JSON may have another order.
	var gotValue, wantValue any
	if err := errors.Join(json.Unmarshal(g, &gotValue), json.Unmarshal(w, &wantValue)); err != nil {
		return fmt.Errorf("stored event %s: %w", want.ID, err)
	}
	const enough = 2000
	if diff := cmp.Diff(wantValue, gotValue); diff != "" {
		return fmt.Errorf("event %s is not stored as written (-want +got):\n%s", want.ID, diff[:min(len(diff), enough)])
	}
	return nil
}

func encode(events []observability.Event) (b []byte, err error) {
	for _, e := range events {
		if b, err = e.AppendJSON(b); err != nil {
			return nil, err
		}
	}
	return b, nil
}
