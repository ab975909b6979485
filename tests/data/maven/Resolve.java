import java.nio.file.Path;
import java.util.ArrayList;
import org.apache.maven.repository.internal.MavenRepositorySystemUtils;
import org.apache.maven.wagon.Wagon;
import org.apache.maven.wagon.providers.file.FileWagon;
import org.eclipse.aether.RepositorySystem;
import org.eclipse.aether.artifact.DefaultArtifact;
import org.eclipse.aether.collection.CollectRequest;
import org.eclipse.aether.connector.basic.BasicRepositoryConnectorFactory;
import org.eclipse.aether.graph.Dependency;
import org.eclipse.aether.repository.LocalRepository;
import org.eclipse.aether.repository.RemoteRepository;
import org.eclipse.aether.repository.RepositoryPolicy;
import org.eclipse.aether.resolution.DependencyRequest;
import org.eclipse.aether.spi.connector.RepositoryConnectorFactory;
import org.eclipse.aether.spi.connector.transport.TransporterFactory;
import org.eclipse.aether.transport.wagon.WagonProvider;
import org.eclipse.aether.transport.wagon.WagonTransporterFactory;

/** Resolves an AAR and all that its POM names, as Maven does: CACHE GROUP NAME VERSION REPOSITORY… */
public class Resolve {
    public static void main(String[] words) throws Exception {
        var locator = MavenRepositorySystemUtils.newServiceLocator();
        locator.addService(RepositoryConnectorFactory.class, BasicRepositoryConnectorFactory.class);
        locator.addService(TransporterFactory.class, WagonTransporterFactory.class);
        locator.setServices(WagonProvider.class, new WagonProvider() {
            @Override public Wagon lookup(String hint) {
                return new FileWagon();
            }

            @Override public void release(Wagon wagon) {}
        });
        var system = locator.getService(RepositorySystem.class);
        var session = MavenRepositorySystemUtils.newSession();
        session.setLocalRepositoryManager(system.newLocalRepositoryManager(session, new LocalRepository(words[0])));
        session.setChecksumPolicy(RepositoryPolicy.CHECKSUM_POLICY_FAIL);
        var repositories = new ArrayList<RemoteRepository>();
        for (int i = 4; i < words.length; i++) {
            String url = Path.of(words[i]).toUri().toString();
            repositories.add(new RemoteRepository.Builder("r" + i, "default", url).build());
        }
        var wanted = new Dependency(new DefaultArtifact(words[1], words[2], "aar", words[3]), "compile");
        var request = new DependencyRequest(new CollectRequest(wanted, repositories), null);
        for (var one : system.resolveDependencies(session, request).getArtifactResults()) {
            System.out.println(one.getArtifact() + " " + one.getArtifact().getFile());
        }
    }
}
