"""What a balancer does to writes whose server dies."""

from __future__ import annotations

from pathlib import Path

from botocore.exceptions import ClientError

from tests.servers.nginx import balanced
from tests.servers.s3 import S3Server


def test_a_write_whose_server_dies_is_sent_to_the_other_one_and_refused_by_its_own_success(
    s3: S3Server, tmp_path: Path
) -> None:
    s3.create_bucket("balanced")
    with balanced(s3.endpoint_url, tmp_path / "nginx") as balancer:
        client = S3Server(balancer.url).client()

        def create(key: str, body: bytes) -> int:
            try:
                client.put_object(Bucket="balanced", Key=key, Body=body, IfNoneMatch="*")
            except ClientError as error:
                return int(error.response["ResponseMetadata"]["HTTPStatusCode"])
            return 200

        answers: list[int] = []
        with balancer.dying_in_turn(within=2) as died:
            while answers.count(412) < 2:
                key, body = f"{len(answers)} %29", b"%d" % len(answers)
                answers.append(create(key, body))
                assert s3.client().get_object(Bucket="balanced", Key=key)["Body"].read() == body
        assert died == [front.proxy.port for front in balancer.fronts]
        assert [each.method for each in balancer.refused_again] == ["PUT", "PUT"]
        assert [each.servers[0] for each in balancer.refused_again] == [f"127.0.0.1:{port}" for port in died]
        assert answers.count(200) == len(answers) - 2
        assert create("0 %29", b"later") == 412
