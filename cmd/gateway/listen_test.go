package main

import (
	"strings"
	"testing"

	"github.com/toolgate/toolgate/internal/proxy"
)

func TestAnAddressInUseSaysWhatToDo(t *testing.T) {
	l, err := listen(t.Context(), proxy.Config{Listen: "127.0.0.1:0"})
	if err != nil {
		t.Fatal(err)
	}
	defer l.Main.Close()
	again := l.Main.Addr().String()
	for _, tt := range []struct {
		c    proxy.Config
		want string
	}{
		{proxy.Config{Listen: again}, "server.listen: "},
		{proxy.Config{Listen: "127.0.0.1:0", AdminListen: again}, "server.admin_listen: "},
	} {
		_, err := listen(t.Context(), tt.c)
		if err == nil || !strings.HasPrefix(err.Error(), tt.want) || !strings.HasSuffix(err.Error(), "another process serves there, maybe a gateway: stop it, or set another address") {
			t.Errorf("listen(%v) = %v", tt.c, err)
		}
	}
}
