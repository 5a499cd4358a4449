"""The Singer tap that replays a lake: whole lines as they were captured, or mapped by the Singer SDK."""
