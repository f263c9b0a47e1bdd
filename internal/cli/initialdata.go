package cli

import (
	"encoding/json"
	"errors"

	"github.com/spf13/cobra"
)

// InitialData is the value of a flag: the initial data of a new conversation as JSON, empty if unset.
type InitialData struct{ raw json.RawMessage }

// String implements pflag.Value.
func (d *InitialData) String() string { return string(d.raw) }

// Type implements pflag.Value.
func (d *InitialData) Type() string { return "JSON" }

// Set implements pflag.Value.
func (d *InitialData) Set(s string) error {
	if !json.Valid([]byte(s)) {
		return errors.New(`it is not JSON; put it in quotes, for example '{"name": "Ada"}'`)
	}
	d.raw = json.RawMessage(s)
	return nil
}

// JSON returns the value, nil if unset.
func (d *InitialData) JSON() json.RawMessage { return d.raw }

// Flag adds the flag to a command.
func (d *InitialData) Flag(cmd *cobra.Command) {
	cmd.Flags().Var(d, "initial-data", "initial data, if the message creates the conversation")
}
