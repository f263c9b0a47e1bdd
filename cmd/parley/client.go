package main

import (
	"fmt"
	"net/http"
	"os"
	"strings"

	"github.com/spf13/cobra"
)

// client calls a server. The zero value sends no token.
type client struct {
	// token goes with every request as a bearer token; "" sends none.
	token string
}

func (c client) do(r *http.Request) (*http.Response, error) {
	if c.token != "" {
		r.Header.Set("Authorization", "Bearer "+c.token)
	}
	return http.DefaultClient.Do(r)
}

// tokenFlag adds the flag that names a token's variable. A token itself is never
// an argument: other users of the machine see those.
func tokenFlag(cmd *cobra.Command, name *string) {
	cmd.Flags().StringVar(name, "token-env", "", "environment variable that holds the bearer token of the server")
}

// newClient returns a client with the token of a variable, with none if name is "".
func newClient(name string) (client, error) {
	if name == "" {
		return client{}, nil
	}
	token := strings.TrimSpace(os.Getenv(name))
	if token == "" {
		return client{}, fmt.Errorf("--token-env %s: the variable is not set; put the server's token into it", name)
	}
	return client{token: token}, nil
}
