"""Read a sandbox with PyGithub: search, page, fetch contents, blobs, trees and commits, and compare them.

usage: pygithub.py URL
"""

import base64
import hashlib
import sys

import github


def blob_id(data: bytes) -> str:
    return hashlib.sha1(b"blob %d\0" % len(data) + data).hexdigest()


def main(url: str) -> None:
    hub = github.Github(base_url=url, auth=github.Auth.Token("t"), per_page=100, retry=None)
    results = hub.search_code("filename:CLAUDE.md")
    seen = set()
    items = []
    for item in results:
        key = (item.repository.full_name, item.path)
        assert key not in seen, f"{key} came twice"
        seen.add(key)
        items.append(item)
    assert results.totalCount >= len(items)

    for item in items[:25]:
        slug = item.repository.full_name
        repository = hub.get_repo(slug)
        assert repository.full_name == slug and repository.id == item.repository.id
        assert repository.stargazers_count >= 0 and repository.default_branch
        blob = repository.get_git_blob(item.sha)
        data = base64.b64decode(blob.content)
        assert blob_id(data) == item.sha, f"blob {item.sha} of {slug} has other bytes"
        tree = repository.get_git_tree(repository.default_branch, recursive=True)
        entry = {e.path: e for e in tree.tree}[item.path]
        assert entry.sha == item.sha and entry.size == len(data)
        content = repository.get_contents(item.path)
        if entry.mode != "120000":
            assert content.decoded_content == data
        commits = list(repository.get_commits(path=item.path))
        assert commits and all(c.commit.author.email for c in commits)
        assert item.decoded_content == content.decoded_content

    try:
        hub.get_repo("no/body")
        raise AssertionError("no/body exists")
    except github.UnknownObjectException as error:
        assert error.status == 404
    limits = hub.get_rate_limit()
    assert limits.resources.core.limit == 5000
    print(f"read {len(items)} items")


if __name__ == "__main__":
    main(sys.argv[1])
