// A proxy between an operator and a real API server that makes things go wrong on purpose.
//
// It prints one line of JSON: where it listens, the authority of its certificate, and where it is
// told what to do. It ends when its stdin does, so that it never outlives who started it.
package main

import (
	"crypto/ecdsa"
	"crypto/elliptic"
	"crypto/rand"
	"crypto/tls"
	"crypto/x509"
	"crypto/x509/pkix"
	"encoding/json"
	"encoding/pem"
	"flag"
	"fmt"
	"io"
	"log"
	"math/big"
	"net"
	"net/http"
	"net/url"
	"os"
	"time"
)

func main() {
	upstream := flag.String("upstream", "", "URL of the API server")
	authority := flag.String("ca", "", "file with the certificate authority of the API server")
	jsonOnly := flag.Bool("json", false, "ask for lists and watches as JSON, to look into them")
	page := flag.Int("page", 0, "objects on a page of a list; 0: as the client asks")
	flag.Parse()
	if err := run(*upstream, *authority, os.Getenv("FAULT_PROXY_TOKEN"), *jsonOnly, *page); err != nil {
		fmt.Fprintln(os.Stderr, "fault proxy:", err)
		os.Exit(1)
	}
}

func run(upstream, authority, token string, jsonOnly bool, page int) error {
	server, err := url.Parse(upstream)
	if err != nil {
		return err
	}
	trusted, err := os.ReadFile(authority)
	if err != nil {
		return err
	}
	roots := x509.NewCertPool()
	roots.AppendCertsFromPEM(trusted)
	client := &http.Client{Transport: &http.Transport{ForceAttemptHTTP2: true, TLSClientConfig: &tls.Config{RootCAs: roots}}}
	certificate, shown, err := selfSigned()
	if err != nil {
		return err
	}
	front, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		return err
	}
	back, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		return err
	}
	proxy := newProxy(server, token, client)
	proxy.jsonOnly, proxy.page = jsonOnly, page
	quiet := log.New(io.Discard, "", 0) // connections that are cut are what it is for
	serving := &http.Server{Handler: proxy, ConnContext: withConnection, ErrorLog: quiet,
		TLSConfig: &tls.Config{Certificates: []tls.Certificate{certificate}}}
	go serving.ServeTLS(front, "", "")
	go http.Serve(back, proxy.control())
	json.NewEncoder(os.Stdout).Encode(map[string]string{"server": "https://" + front.Addr().String(), "ca": shown,
		"control": "http://" + back.Addr().String()})
	_, err = io.Copy(io.Discard, os.Stdin)
	return err
}

func selfSigned() (tls.Certificate, string, error) {
	key, err := ecdsa.GenerateKey(elliptic.P256(), rand.Reader)
	if err != nil {
		return tls.Certificate{}, "", err
	}
	now := time.Now()
	template := &x509.Certificate{SerialNumber: big.NewInt(1), Subject: pkix.Name{CommonName: "fault proxy"},
		NotBefore: now.Add(-time.Hour), NotAfter: now.Add(7 * 24 * time.Hour), IPAddresses: []net.IP{net.IPv4(127, 0, 0, 1)},
		IsCA: true, BasicConstraintsValid: true, KeyUsage: x509.KeyUsageDigitalSignature | x509.KeyUsageCertSign,
		ExtKeyUsage: []x509.ExtKeyUsage{x509.ExtKeyUsageServerAuth}}
	der, err := x509.CreateCertificate(rand.Reader, template, template, &key.PublicKey, key)
	if err != nil {
		return tls.Certificate{}, "", err
	}
	shown := string(pem.EncodeToMemory(&pem.Block{Type: "CERTIFICATE", Bytes: der}))
	return tls.Certificate{Certificate: [][]byte{der}, PrivateKey: key}, shown, nil
}
