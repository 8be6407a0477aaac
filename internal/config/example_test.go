package config_test

import (
	"fmt"

	"github.com/waybill-dev/waybill/internal/config"
)

// Read checks the whole file and returns every fault with its place.
func ExampleRead() {
	_, err := config.Read("server.yaml", []byte(`handlers:
  notify:
    type: webhok
workflows:
  mirror: {handler: notfy}
`))
	fmt.Println(err)
	// Output:
	// server.yaml:3:11: handlers.notify.type: "webhok" is none of webhook, shell, argo, cirrus, noop (did you mean "webhook"?)
	// server.yaml:5:21: workflows.mirror.handler: handler "notfy" not found (did you mean "notify"?)
}

// A handler prepares an action: it checks the parameters against its declaration.
func ExampleHandler_Prepare() {
	c, err := config.Read("server.yaml", []byte(`handlers:
  greet:
    type: shell
    command: {argv: [echo, hello]}
    parameters: {name: {type: string, default: world}}
`))
	if err != nil {
		fmt.Println(err)
		return
	}
	a, err := c.Handlers["greet"].Prepare([]byte(`{"name": "you"}`))
	fmt.Println(a.Handler, string(a.Parameters), err)
	_, err = c.Handlers["greet"].Prepare([]byte(`{"nam": "you"}`))
	fmt.Println(err)
	// Output:
	// greet {"name": "you"} <nil>
	// unknown parameter "nam" (did you mean "name"?)
}
