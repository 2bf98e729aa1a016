package redislua

import (
	"crypto/tls"
	"crypto/x509"
	"errors"
	"fmt"
	"os"
)

// secure puts the certificates of the files into config, which is nil for a URL without
// TLS. "" is no file.
func secure(config *tls.Config, ca, cert, key string) error {
	if config == nil {
		if ca+cert+key != "" {
			return errors.New("certificates are for rediss:// only")
		}
		return nil
	}
	config.ServerName = "" // each server's own, also of a Cluster's others and behind Sentinel
	if ca != "" {
		pem, err := os.ReadFile(ca)
		if err != nil {
			return fmt.Errorf("ca_file: %w", err)
		}
		config.RootCAs = x509.NewCertPool()
		if !config.RootCAs.AppendCertsFromPEM(pem) {
			return fmt.Errorf("ca_file: %s holds no certificate", ca)
		}
	}
	if cert+key != "" {
		own, err := tls.LoadX509KeyPair(cert, key)
		if err != nil {
			return fmt.Errorf("cert_file and key_file: %w", err)
		}
		config.Certificates = []tls.Certificate{own}
	}
	return nil
}
