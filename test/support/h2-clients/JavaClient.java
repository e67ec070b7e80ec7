// Posts files over HTTP/2 and says what came: arguments are an authority (PEM), an address, a key and the files.
import java.io.FileInputStream;
import java.io.IOException;
import java.net.URI;
import java.net.http.HttpClient;
import java.net.http.HttpRequest;
import java.net.http.HttpResponse;
import java.nio.file.Path;
import java.security.KeyStore;
import java.security.cert.CertificateFactory;
import javax.net.ssl.SSLContext;
import javax.net.ssl.TrustManagerFactory;

public class JavaClient {
  public static void main(String[] args) throws Exception {
    KeyStore store = KeyStore.getInstance(KeyStore.getDefaultType());
    store.load(null, null);
    try (FileInputStream in = new FileInputStream(args[0])) {
      store.setCertificateEntry("ca", CertificateFactory.getInstance("X.509").generateCertificate(in));
    }
    TrustManagerFactory trust = TrustManagerFactory.getInstance(TrustManagerFactory.getDefaultAlgorithm());
    trust.init(store);
    SSLContext tls = SSLContext.getInstance("TLS");
    tls.init(null, trust.getTrustManagers(), null);
    HttpClient client = HttpClient.newBuilder().version(HttpClient.Version.HTTP_2).sslContext(tls).build();
    for (int i = 3; i < args.length; i++) {
      Path file = Path.of(args[i]);
      HttpRequest request = HttpRequest.newBuilder(URI.create(args[1]))
          .header("Authorization", "API-Key " + args[2])
          .POST(HttpRequest.BodyPublishers.fromPublisher(HttpRequest.BodyPublishers.ofFile(file)))
          .build();
      try {
        HttpResponse<String> answer = client.send(request, HttpResponse.BodyHandlers.ofString());
        long lines = answer.body().chars().filter(c -> c == '\n').count();
        String protocol = answer.version() == HttpClient.Version.HTTP_2 ? "HTTP/2.0" : "HTTP/1.1";
        System.out.printf("{\"status\": %d, \"lines\": %d, \"protocol\": \"%s\", \"failed\": false}%n", answer.statusCode(), lines, protocol);
      } catch (IOException e) {
        System.out.println("{\"status\": 0, \"lines\": 0, \"protocol\": \"\", \"failed\": true}");
      }
    }
  }
}
