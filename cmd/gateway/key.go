package main

import (
	"crypto/rand"
	"crypto/sha256"
	"encoding/base64"
	"encoding/hex"
	"fmt"

	"github.com/spf13/cobra"
)

func keyCommand() *cobra.Command {
	return group(&cobra.Command{Use: "key", Short: "Keys for clients"}, &cobra.Command{
		Use:     "new",
		Short:   "Print a new key, and the lines of the configuration that let it in",
		Example: "  gateway key new",
		Args:    noArgs,
		RunE: func(cmd *cobra.Command, _ []string) error {
			secret := make([]byte, 32)
			if _, err := rand.Read(secret); err != nil {
				return err
			}
			key := "tg-" + base64.RawURLEncoding.EncodeToString(secret)
			sum := sha256.Sum256([]byte(key))
			_, err := fmt.Fprintf(cmd.OutOrStdout(), "# the key, for the client; it is not stored anywhere:\n%s\n\n# for gateway.yaml, under auth.keys, or for auth.keys_file:\n- name: web\n  sha256: \"%s\"\n", key, hex.EncodeToString(sum[:]))
			return err
		},
	})
}
