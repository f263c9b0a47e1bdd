package notes

import (
	"encoding/json"
	"errors"
	"fmt"
	"slices"
	"strings"

	"github.com/parleyrun/parley/channels"
)

// Type is the type of an event, such as page.created.
type Type string

// Known lists the event types that the platform documents. The channel delivers unknown ones, too.
func Known() []Type {
	return []Type{
		"comment.created", "comment.deleted", "comment.updated",
		"data_source.content_updated", "data_source.created", "data_source.deleted", "data_source.moved",
		"data_source.schema_updated", "data_source.undeleted",
		"database.content_updated", "database.created", "database.deleted", "database.moved", "database.schema_updated",
		"database.undeleted",
		"file_upload.completed", "file_upload.created", "file_upload.expired", "file_upload.upload_failed",
		"page.content_updated", "page.created", "page.deleted", "page.locked", "page.moved", "page.properties_updated",
		"page.transcription_block.transcript_deleted", "page.undeleted", "page.unlocked",
		"view.created", "view.deleted", "view.updated",
	}
}

// Event is one event of the platform.
type Event struct {
	// Type is never empty. A switch over it needs a default, because platforms add types.
	Type Type
	// Native is the event as received, with the platform's names and nesting. It must not be modified.
	Native json.RawMessage
}

// parse decodes an object with a type, without validating other members.
func parse(body []byte) (Event, error) {
	members, err := channels.Object(body)
	if err != nil {
		return Event{}, err
	}
	kind, ok := channels.String(members, "type")
	if !ok {
		return Event{}, errors.New("event has no type")
	}
	text, err := channels.Text(body)
	return Event{Type(kind), text}, err
}

// lasting removes the attempt number, which changes when the platform sends again.
func lasting(body []byte) []byte {
	members, err := channels.Object(body)
	if err != nil {
		return body
	}
	delete(members, "attempt_number")
	if text, err := json.Marshal(members); err == nil {
		return text
	}
	return body
}

// UnmarshalJSON implements json.Unmarshaler, for applications that store events.
func (e *Event) UnmarshalJSON(b []byte) (err error) {
	*e, err = parse(slices.Clone(b))
	return err
}

// MarshalJSON implements json.Marshaler. It returns the event as received.
func (e Event) MarshalJSON() ([]byte, error) { return e.Native, nil }

// Typed returns the event as the Go type of its family: [*Comment], [*DataSource], [*Database],
// [*FileUpload], [*Page] or [*View]. It is nil for unknown types; use Native for those. An error means
// that the platform has changed a known family.
func (e Event) Typed() (any, error) {
	if !slices.Contains(Known(), e.Type) {
		return nil, nil
	}
	var v any
	switch family, _, _ := strings.Cut(string(e.Type), "."); family {
	case "comment":
		v = &Comment{}
	case "data_source":
		v = &DataSource{}
	case "database":
		v = &Database{}
	case "file_upload":
		v = &FileUpload{}
	case "page":
		v = &Page{}
	case "view":
		v = &View{}
	}
	if err := json.Unmarshal(e.Native, v); err != nil {
		return nil, fmt.Errorf("read %s event: %w", e.Type, err)
	}
	return v, nil
}

// Head contains the members that all known events share.
type Head struct {
	ID             string   `json:"id"` // delivery id, the same when the platform sends again
	Type           Type     `json:"type"`
	Timestamp      string   `json:"timestamp"`
	WorkspaceID    string   `json:"workspace_id"`
	WorkspaceName  string   `json:"workspace_name"`
	SubscriptionID string   `json:"subscription_id"`
	IntegrationID  string   `json:"integration_id"`
	Authors        []Author `json:"authors"`
	AccessibleBy   []Author `json:"accessible_by,omitempty"` // never contains agents
	AttemptNumber  int      `json:"attempt_number"`          // changes when the platform sends again
	APIVersion     string   `json:"api_version"`
	Entity         Entity   `json:"entity"`
}

// Kinds of authors.
const (
	AuthorPerson = "person"
	AuthorBot    = "bot"
	AuthorAgent  = "agent"
)

// Author is the author of an event.
type Author struct {
	ID   string `json:"id"`
	Type string `json:"type"` // AuthorPerson, AuthorBot, AuthorAgent
}

// Entity is the object of an event, or its parent.
type Entity struct {
	ID   string `json:"id"`
	Type string `json:"type"`
}

// Comment is an event comment.*.
type Comment struct {
	Head
	Data *struct {
		Parent Entity `json:"parent"`
		PageID string `json:"page_id"`
	} `json:"data,omitempty"`
}

// Contents is the data of events about objects with a parent and content.
type Contents struct {
	Parent        Entity   `json:"parent"`
	UpdatedBlocks []Entity `json:"updated_blocks,omitempty"` // of content_updated
}

// Schema is Contents, with the properties of schema_updated.
type Schema struct {
	Contents
	UpdatedProperties []struct {
		ID     string  `json:"id"`
		Name   *string `json:"name"`
		Action string  `json:"action"` // created, updated or deleted
	} `json:"updated_properties,omitempty"`
}

// DataSource is an event data_source.*.
type DataSource struct {
	Head
	Data *Schema `json:"data,omitempty"`
}

// Database is an event database.*.
type Database struct {
	Head
	Data *Schema `json:"data,omitempty"`
}

// FileUpload is an event file_upload.*. Data is set for upload_failed only.
type FileUpload struct {
	Head
	Data *struct {
		FileImportResult json.RawMessage `json:"file_import_result,omitempty"`
	} `json:"data,omitempty"`
}

// Page is an event page.*.
type Page struct {
	Head
	Data *struct {
		Contents
		UpdatedProperties []string `json:"updated_properties,omitempty"` // of properties_updated
		Target            *Entity  `json:"target,omitempty"`             // of transcript_deleted
		TranscriptID      *string  `json:"transcript_id,omitempty"`
	} `json:"data,omitempty"`
}

// View is an event view.*.
type View struct {
	Head
	Data *struct {
		Parent        Entity   `json:"parent"`
		ViewType      string   `json:"view_type,omitempty"`      // of created
		UpdatedFields []string `json:"updated_fields,omitempty"` // of updated
	} `json:"data,omitempty"`
}
