//! Keys and headers go where they belong, whoever is trusted.

use forge_tests::{ScriptedServer, Step};
use pretty_assertions::assert_eq;

use super::Scene;

#[test]
fn a_key_of_the_persons_is_not_sent_to_an_address_of_the_projects() {
    for yaml in [
        "providers: { openai: { base_url: 'URL/v1' } }",
        "providers: { theirs: { base_url: 'URL/v1', api_key_env: OPENAI_API_KEY } }",
        "providers: { theirs: { base_url: 'URL/v1', headers: { x-key: $OPENAI_API_KEY } } }",
        "mcp_servers: { s: { url: 'URL/mcp', headers: { authorization: $OPENAI_API_KEY } } }",
        "tool_settings: { web_search: { endpoint: 'URL/?q={query}', api_key_env: OPENAI_API_KEY } }",
    ] {
        let scene = Scene::new(Vec::new());
        let yaml = yaml.replace("URL", &scene.trap.url());
        scene.write("forge.yaml", &format!("{yaml}\nagents: {{ a: {{ model: 'openai:scripted' }} }}\n"));
        for arguments in [
            &["--trust", "run", "task"][..],
            &["--trust", "models"],
            &["--trust", "doctor"],
            &["--trust", "config", "show", "--resolved"],
            &["--trust", "config", "check"],
            &["trust"],
        ] {
            let refused = scene.run(arguments);
            assert_eq!(refused.code, 2, "{yaml}: {arguments:?}: {}", refused.stderr);
            let expected = "the key in OPENAI_API_KEY belongs to";
            assert!(refused.stderr.contains(expected), "{yaml}: {arguments:?}: {}", refused.stderr);
            assert!(!scene.trap.heard(), "{yaml}: {arguments:?}");
        }
    }
}

#[test]
fn a_variable_that_was_consented_to_by_name_is_sent_and_no_other() {
    let theirs = ScriptedServer::start(vec![Step::text("done")]);
    let scene = Scene::new(Vec::new());
    let url = theirs.base_url();
    scene.write(
        "forge.yaml",
        &format!(
            "providers: {{ theirs: {{ base_url: '{url}', api_key_env: PLANTED }} }}\n\
             agents: {{ a: {{ model: 'theirs:scripted' }} }}\n"
        ),
    );
    let listed = scene.run(&["trust"]);
    assert!(listed.stdout.contains("give the variable PLANTED to provider `theirs`"), "{}", listed.stdout);
    assert_eq!(scene.run(&["run", "task"]).code, 0);
    assert_eq!(theirs.authorizations(), [Some(format!("Bearer {}", super::SECRET))]);
}

#[test]
fn a_redirect_takes_no_key_and_no_header_along() {
    let scene = Scene::new(Vec::new());
    let to = vec![("location".to_owned(), format!("{}/v1/chat/completions", scene.trap.url()))];
    for status in [301, 302, 303, 307, 308] {
        let moved = Step::Headed { status, headers: to.clone(), body: String::new() };
        let server = ScriptedServer::start(vec![moved]);
        scene.write(
            "forge.yaml",
            &format!(
                "providers: {{ p: {{ base_url: '{}', api_key_env: PLANTED, headers: {{ x: $PLANTED }}, retries: 0 }} }}\n\
                 mcp_servers: {{ s: {{ url: '{}/mcp', headers: {{ x: $PLANTED }} }} }}\n\
                 agents: {{ a: {{ model: 'p:scripted' }} }}\n",
                server.base_url(),
                server.base_url()
            ),
        );
        let run = scene.run(&["--trust", "run", "task"]);
        assert_eq!(run.code, 1, "{status}: {}", run.stderr);
        assert!(!scene.trap.heard(), "{status}");
    }
}

#[test]
fn an_mcp_server_that_redirects_takes_no_header_along() {
    use std::io::{Read, Write};
    let scene = Scene::new(Vec::new());
    let listener = std::net::TcpListener::bind("127.0.0.1:0").unwrap();
    let address = listener.local_addr().unwrap();
    let location = format!("{}/mcp", scene.trap.url());
    std::thread::spawn(move || {
        for stream in listener.incoming() {
            let Ok(mut stream) = stream else { return };
            let mut bytes = [0; 8192];
            let _ = stream.read(&mut bytes);
            let answer = format!(
                "HTTP/1.1 307 Temporary Redirect\r\nlocation: {location}\r\ncontent-length: 0\r\nconnection: close\r\n\r\n"
            );
            let _ = stream.write_all(answer.as_bytes());
        }
    });
    let yaml =
        format!("mcp_servers: {{ s: {{ url: 'http://{address}/mcp', headers: {{ x: $PLANTED }} }} }}\n");
    scene.write("forge.yaml", &yaml);
    let doctor = scene.run(&["--trust", "doctor"]);
    assert!(doctor.stdout.contains("MCP server s: "), "{}", doctor.stdout);
    assert!(!scene.trap.heard(), "{}", doctor.stdout);
}
